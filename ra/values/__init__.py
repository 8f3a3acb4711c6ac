"""Values: the 64 bits of a number, a symbol, a record or a branch, and the dictionaries of symbols and records."""
