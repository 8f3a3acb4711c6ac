"""Join planning: cardinality estimates, join orders, indexes, placement, and the steps of a body."""
