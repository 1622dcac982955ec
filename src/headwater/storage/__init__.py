"""Where files are kept: one interface, and the file system of this machine behind it.

Nothing else in Headwater knows of syncing, renaming, linking and locking files.
"""
