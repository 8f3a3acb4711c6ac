"""The evaluations of the papers that this engine is built after, made again: `python -m bench.paper`.

A module a figure, each with TITLE, `measure(evaluation)` (what JSON can hold), `table(data)` and `draw(data)`; the last two
need nothing but what was measured. What is called a figure or table by its number is of *Load-balancing Parallel Relational
Algebra* (Kumar, Gilray 2020), whose own numbers are in `claims`, those we are certain of.
"""
