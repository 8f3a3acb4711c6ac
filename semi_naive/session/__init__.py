"""Sessions: a program's relations stay at their fixed point while facts come and go.

- session: the public face, a `Session`; transaction: what it asks, until it commits
- facts: what was asked made net; explicit facts, apart from derived tuples
- upkeep: how the relations follow, stratum by stratum; following: the delta rules of one
- flips: where rules negate and aggregate; guard: suspects that stay, by their ticks; closed_tables: best values, classes;
  closures: theirs
- contents: relations as of an epoch, and what a transaction has changed; query: an atom, answered
"""
