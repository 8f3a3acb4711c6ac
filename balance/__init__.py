"""Where tuples live, when they move, and the record of it: pure arithmetic on hashes and sizes, no Spark."""
