"""The text that `explain` returns: for a program before it runs, from the same decisions as in a run, and for a completed
run."""
