"""The decomposed plan: groups of tuples that never meet, each evaluated by one task."""
