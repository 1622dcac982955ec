"""Views as Spark's own words read them: a data source, a stream of changes, temporary views."""
