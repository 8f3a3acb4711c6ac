"""Passes that rewrite checked rules, program to program."""
