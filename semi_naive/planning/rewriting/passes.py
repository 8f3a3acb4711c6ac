"""The passes between checking and planning, in their order."""

from dataclasses import dataclass, replace
from functools import cached_property

from semi_naive.planning.rewriting.classes import keep_classes
from semi_naive.planning.rewriting.common_subjoins import share
from semi_naive.planning.rewriting.early_aggregates import aggregate_early
from semi_naive.planning.rewriting.inline import inline
from semi_naive.planning.rewriting.kept_steps import drop_unread_steps
from semi_naive.planning.rewriting.loops import StratumLoop, group_loops, needed, repeated
from semi_naive.planning.rewriting.magic import magic
from semi_naive.planning.rewriting.products import factor
from semi_naive.planning.rewriting.simplify import simplify
from semi_naive.planning.rewriting.split_joins import halve
from semi_naive.planning.rewriting.static_joins import join_static
from semi_naive.planning.strata import Stratum, strata
from semi_naive.ra import ir


@dataclass(frozen=True)
class Compiled:
    """A program after all passes, and its strata in the order of evaluation."""

    program: ir.Program
    strata: list[Stratum]

    @cached_property
    def loops(self) -> dict[int, StratumLoop]:
        """The loops of strata, each by the number of its first stratum."""
        found = (StratumLoop(loop, repeated(self.strata, loop)) for loop in self.program.loops)
        return {loop.numbers[0]: loop for loop in found}


def apply_passes(program: ir.Program, keep: set[str] | None, given, limited: bool = False, once: bool = False) -> Compiled:
    """Apply all passes to a program. keep: the relations to compute; None for all. given: the relations that get facts.
    limited: skip the passes that change the number of iterations of a recursive stratum. once: no session will maintain the
    relations, so some may be kept in another form, and parts of bodies may be aggregated before they are joined."""
    loops, keep, given = needed(program, None if keep is None else set(keep), given)
    whole = given.union(*(loop.read | loop.collected for loop in loops))
    program = inline(replace(program, rules=list(program.rules), loops=tuple(loops)))
    program = simplify(program, keep, given)
    program = drop_unread_steps(program, keep)
    asked = program if limited else magic(program, {*(keep or ()), *whole})
    program = program if asked is program else simplify(asked, keep, given)
    program = share(program)
    program = program if limited else factor(program)
    program = join_static(program) if once and not limited else program
    program = program if limited else halve(program)
    program = keep_classes(program, keep, whole) if once and not limited else program
    program = aggregate_early(program) if once else program
    return Compiled(program, group_loops(strata(program), program.loops))
