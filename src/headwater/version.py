"""Which release this is. Apart from everything, because executors are asked for theirs."""

VERSION = "0.1.0"
