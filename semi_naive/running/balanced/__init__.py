"""The balanced plan: a stratum evaluated on the partitions, with refinement and run-ahead."""
