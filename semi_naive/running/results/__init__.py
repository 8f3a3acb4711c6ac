"""Results: answers, files, data frames and Python values."""
