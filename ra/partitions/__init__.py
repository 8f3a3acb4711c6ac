"""Relations on the partitions, and the tasks of the jobs that load, exchange, insert, move and read their tuples."""
