"""Relations and their operations: packed tuples, runs, the two shuffles, and the steps of rules."""
