"""Relations that keep some of the tuples that rules make: aggregates in heads, best values, lattices, subsumption."""
