"""What view managers are told and what they ask for: events, effects, traces."""
