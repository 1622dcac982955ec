"""Delta tables as a source: versions are positions, and every version can be asked."""
