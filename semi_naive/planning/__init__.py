"""From checked rules to what is run: strata, simplification, indexes, join orders, plans."""
