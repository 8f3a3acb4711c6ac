"""Sessions: a program's relations are kept at their fixed point while facts are inserted and deleted.

- session: the public interface; transaction: the operations of a transaction; facts: their net change
- committing, turns: how transactions commit, one after another
- maintenance: relations follow their facts. upkeep: holds the objects that maintain a session; explicit: explicit facts;
  materialized: the relations and their states; propagation: the changes of one transaction, from stratum to stratum
- in_driver, delete_rederive, incremental: delta rules in this process; guard, ticks: suspects that stay; counting: aggregates
- across_partitions, continued, spread: delta rules on the partitions; recomputation, budget: strata that are recomputed
- closures, implied: transitive closures; closed_tables, improving: best values and classes
- contents: relations as of an epoch, and the changes of a transaction; query: answers to an atom
"""
