"""What is kept: the change log, and views as Delta tables."""
