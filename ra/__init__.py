"""What a relation is and what can be done to it: packing, runs, the two shuffles, the steps of rules."""
