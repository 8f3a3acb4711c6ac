"""Transitive closures of graphs: adjacency, bit-set search, condensation."""
