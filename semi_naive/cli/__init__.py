"""The command line: one file a command; `semi_naive.__main__` has their options."""
