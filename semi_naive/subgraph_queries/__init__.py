"""Subgraphs of a graph: patterns, the graph they are looked for in, the plans, and what is found."""
