"""The progress of a run: its state, profile, checkpoints and recovery."""
