"""Expressions of rules over columns: arithmetic, functors on symbols, comparisons and aggregates."""
