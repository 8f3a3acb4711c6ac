"""Worst-case optimal joins in rule bodies, variable by variable: count, propose and intersect; leapfrog triejoin."""
