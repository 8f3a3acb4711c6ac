"""Functions from a Spark DataFrame to another, for `DataFrame.transform`.

from semi_naive import transforms

edges.transform(transforms.transitive_closure)                               # columns keep their names
edges.transform(transforms.evaluated, program, reads="edge", output="path")
accounts.transform(transforms.evaluated, "rules.dl", reads="account", output="risk", facts={"limit": limits})

The data behind such a DataFrame is kept until the end of the program: `semi_naive.transitive_closure(edges).to_df()` and
`program.run(…)[…].to_df()` give the same DataFrame and can be closed.
"""

import os
from typing import TYPE_CHECKING

from semi_naive.io.errors import BadInput

if TYPE_CHECKING:
    from semi_naive.program import Program


def transitive_closure(edges, **options):
    """Compute the pairs (x, y) such that y can be reached from x, with the column names of `edges`, immediately. options: as
    for `semi_naive.transitive_closure`."""
    from semi_naive.closure import transitive_closure as closed

    return closed(edges, **options).to_df()


def evaluated(rows, program: "Program | str | os.PathLike", reads: str | None = None, output: str | None = None, facts=None,
              **options):  # fmt: skip
    """Run a program immediately, with the rows as facts of a relation, and return another relation.

    program: a `Program`, or the path of one. reads: the relation of the rows; None: the only .input. output: the returned
    relation; None: the only .output. facts: of other relations, {name: data}. options: as for `Program.run`. Raises ValueError
    if a relation must be named.
    """
    from semi_naive.program import Program

    program = program if isinstance(program, Program) else Program.from_file(program)
    reads = reads or _only(program.inputs, program.name, ".input", "reads")
    output = output or _only(program.outputs, program.name, ".output", "output")
    return program.run({**(facts or {}), reads: rows}, **options)[output].to_df()


def _only(names: list[str], program: str, directive: str, parameter: str) -> str:
    """Return the only name. Raises BadInput if there is not exactly one. directive, parameter: for the error."""
    if len(names) != 1:
        has = ", ".join(names) or "none"
        raise BadInput(f"{program} has not one {directive}", hint=f"name the relation, {parameter}=…: it has {has}")
    return names[0]
