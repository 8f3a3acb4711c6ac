"""Rules: what they are once checked, and how they are evaluated over columns."""
