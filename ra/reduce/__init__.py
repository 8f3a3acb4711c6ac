"""Relations with a reduction, which selects or combines tuples with equal keys: minima, lattices, choices, subsumption,
equivalence classes.
"""
