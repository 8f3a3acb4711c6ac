"""The passes between checking and planning, in their order."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from semi_naive.planning.rewriting.classes import keep_classes
from semi_naive.planning.rewriting.common_subjoins import share
from semi_naive.planning.rewriting.early_aggregates import aggregate_early
from semi_naive.planning.rewriting.inline import inline
from semi_naive.planning.rewriting.kept_steps import drop_unread_steps
from semi_naive.planning.rewriting.loops import StratumLoop, group_loops, needed, repeated
from semi_naive.planning.rewriting.magic import magic
from semi_naive.planning.rewriting.products import factor
from semi_naive.planning.rewriting.pushdown import push_down
from semi_naive.planning.rewriting.simplify import simplify
from semi_naive.planning.rewriting.split_joins import halve
from semi_naive.planning.rewriting.static_joins import is_static, join_static
from semi_naive.planning.strata import Stratum, strata
from semi_naive.ra import ir
from semi_naive.ra.pushdown import Pushdown


@dataclass(frozen=True)
class Compiled:
    """A program after all passes, and its strata in the order of evaluation."""

    program: ir.Program
    strata: list[Stratum]
    unjoined: ir.Program | None = None  # the program without static joins, if it has any: see `join_static`
    pushdown: dict[str, Pushdown] = field(default_factory=dict)  # for the readers of facts, by relation

    @cached_property
    def loops(self) -> dict[int, StratumLoop]:
        """The loops of strata, each by the number of its first stratum."""
        loops = (StratumLoop(loop, repeated(self.strata, loop)) for loop in self.program.loops)
        return {loop.numbers[0]: loop for loop in loops}

    @cached_property
    def unjoined_strata(self) -> dict[str, Stratum]:
        """The strata without static joins, by each of their relations."""
        return {name: stratum for stratum in (strata(self.unjoined) if self.unjoined else ()) for name in stratum.relations}


def apply_passes(
    program: ir.Program,
    keep: set[str] | None,
    given: Iterable[str],
    limited: bool = False,
    once: bool = False,
    whole: Iterable[str] = (),
) -> Compiled:
    """Apply all passes to a program. keep: the relations to compute; None for all. given: the relations that get facts.
    limited: skip the passes that change the number of iterations of a recursive stratum. once: no session will maintain the
    relations, so some may be kept in another form, and parts of bodies may be aggregated before they are joined. whole: the
    relations that get facts which are not read, but taken over with all of their attributes."""
    compiled = _compiled(program, keep, given, limited, once)
    if keep is None or not once:  # all attributes of facts are wanted
        return compiled
    forms = [compiled.program, *([compiled.unjoined] if compiled.unjoined else [])]
    forms, pushed = push_down(forms, keep.union(whole), given)
    if forms[0] is compiled.program:
        return replace(compiled, pushdown=pushed)
    return Compiled(forms[0], strata(forms[0]), forms[1] if forms[1:] else None, pushed)


def _compiled(program: ir.Program, keep: set[str] | None, given: Iterable[str], limited: bool, once: bool) -> Compiled:
    """Apply the passes that change rules."""
    loops, keep, given = needed(program, None if keep is None else set(keep), given)
    whole = given.union(*(loop.read | loop.collected for loop in loops))
    program = inline(replace(program, rules=list(program.rules), loops=tuple(loops)))
    program = simplify(program, keep, given)
    program = drop_unread_steps(program, keep)
    # not of a relation that also gets tuples without rules
    on_demand = program if limited else magic(program, {*(keep or ()), *whole})
    program = program if on_demand is program else simplify(on_demand, keep, given)
    program = share(program, once)
    if limited:  # the passes below change the number of iterations
        program = aggregate_early(program) if once else program
        return Compiled(program, group_loops(strata(program), program.loops))
    halves: dict[str, str] = {}
    program = factor(program)
    joined = join_static(program) if once else program

    def finished(program: ir.Program) -> ir.Program:
        """Apply the last passes, which both forms of the program need."""
        program = halve(program, halves)
        return aggregate_early(keep_classes(program, keep, whole)) if once else program

    unjoined = finished(program)
    if joined is program or not _differ_only_in_readers(unjoined, joined := finished(joined)):
        return Compiled(unjoined, group_loops(strata(unjoined), unjoined.loops))
    # A stratum without static joins may read halves that the program with static joins does not have.
    program = replace(joined, relations=unjoined.relations | joined.relations)
    return Compiled(program, strata(program), unjoined)


def _differ_only_in_readers(unjoined: ir.Program, joined: ir.Program) -> bool:
    """True if two programs, without and with static joins, differ only in the rules of strata that read such joins. Then a
    stratum of one program can replace that of the other."""
    readers = {name for stratum in strata(joined) if any(map(is_static, stratum.reads)) for name in stratum.relations}
    halves = unjoined.relations.keys() - joined.relations.keys()
    heads_before, heads_after = ({str(rule): rule.head.relation for rule in form.rules} for form in (unjoined, joined))
    heads = {name for _, name in heads_before.items() ^ heads_after.items()}
    return all(name in readers or is_static(name) or name in halves for name in heads)
