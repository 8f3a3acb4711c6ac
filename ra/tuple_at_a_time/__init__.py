"""Rules evaluated a tuple at a time, in compiled code, while deltas are small."""
