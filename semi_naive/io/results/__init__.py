"""Results in order, as files, and on standard output."""
