"""Maintain the relations of a session: incrementally if that is less work, else by recomputation."""
