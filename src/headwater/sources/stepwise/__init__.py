"""Sources whose states can be read again, step by step: what files and Delta tables have alike."""
