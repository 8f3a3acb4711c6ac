"""Subgraph queries: the patterns, the graph that is searched, the plans, and the matches."""
