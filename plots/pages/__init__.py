"""Pages: the report of runs, and the live report."""
