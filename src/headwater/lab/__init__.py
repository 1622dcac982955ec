"""The lab: simulated sources and channels, schedules, exploration, levels found."""
