"""Database servers that the demo, the benchmarks and the tests start for themselves."""
