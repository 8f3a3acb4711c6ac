"""Blocks of sorted, packed tuples; tables of blocks; changes from one state of a table to the next; blocks in files."""
