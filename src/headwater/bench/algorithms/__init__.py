"""Every algorithm that maintains real views, on four workloads, and the one that is chosen."""
