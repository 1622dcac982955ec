"""What a project is: settings, view files, the choice of algorithms, and what is wrong with them.

Nothing here runs a view or starts Spark.
"""
