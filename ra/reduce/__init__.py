"""Relations that keep, of the tuples with equal keys, those that a reduction chooses."""
