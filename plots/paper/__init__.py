"""The evaluation of *Load-balancing Parallel Relational Algebra* (Kumar, Gilray 2020), made again: `python -m plots.paper`.

A module a figure, each with TITLE, `measure(evaluation)` (what JSON can hold), `table(data)` and `draw(data)`; the last two
need nothing but what was measured. The paper's own numbers are in `claims`, those we are certain of.
"""
