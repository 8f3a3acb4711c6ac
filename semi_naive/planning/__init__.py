"""From checked rules to plans: strata, rewriting, indexes, join orders."""
