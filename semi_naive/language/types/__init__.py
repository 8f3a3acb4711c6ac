"""Types: declarations, inference, checks, and the signatures of functors."""
