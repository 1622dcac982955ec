"""`headwater bench freshness`: from a commit at a source to the view, against recomputing."""
