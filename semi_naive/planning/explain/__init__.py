"""The text that `explain` returns: for a program before it runs, by the decisions of a run, and after a run."""
