"""The running system: a project's settings, loading, maintaining, verifying."""
