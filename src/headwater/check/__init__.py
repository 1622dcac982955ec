"""The consistency checker: levels as data, verdicts with witnesses."""
