"""Relations as Spark DataFrames, and values on their way to and from Arrow."""
