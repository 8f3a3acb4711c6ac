"""Sessions: the relations of a program are maintained at their fixed point while facts are inserted and deleted.

- session: the public interface; transaction: transactions and turns; committing: the commit of transactions
- facts: explicit facts and their pending changes; contents: epochs and changes; query: answers; system: system relations
- maintenance: relations follow their facts, in the driver or on the partitions, by delta rules or by recomputation
- durability: the directory of a session, with its log; registered: registered rules and subscriptions
- served: access by HTTP, and streams of Spark
"""
