"""Loops: consecutive strata that are evaluated repeatedly, in rounds (see `language.wellfounded`,
`language.reductions.recursive_sums` and `language.stepping`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from semi_naive.planning import rewrite
from semi_naive.planning.strata import Stratum
from semi_naive.ra import ir


@dataclass(frozen=True)
class StratumLoop:
    """The consecutive strata, by number, that one round evaluates."""

    of: ir.Loop
    numbers: list[int]

    def remade(self, strata: list[Stratum]) -> set[str]:
        """The relations that each round makes anew."""
        return {name for number in self.numbers for name in strata[number].relations} - self.of.collected


def needed(program: ir.Program, keep: set[str] | None, given: Iterable[str]) -> tuple[list[ir.Loop], set[str] | None, set[str]]:
    """Return the loops that a wanted relation depends on, the relations to keep, and the relations filled without rules."""
    loops = list(program.loops)
    if keep is not None and loops:
        wanted = keep | {directive.relation for directive in program.directives if directive.kind != "input"}
        reads = rewrite.dependencies(program)
        for loop in loops:
            for name in loop.carried:
                reads[name] = reads[name] | loop.read
        used = rewrite.reachable(wanted, reads)
        loops = [loop for loop in loops if loop.read & used]
        keep = keep.union(*(loop.read for loop in loops))
    return loops, keep, {*given}.union(*(loop.carried for loop in program.loops))


def group_loops(found: list[Stratum], loops: Iterable[ir.Loop]) -> list[Stratum]:
    """Return the strata ordered such that those of each loop are consecutive. They come after the relations that a round gets
    from earlier rounds, which no rule derives, and before every other stratum that reads those relations or the loop's
    results."""
    for loop in loops:
        known = {known for known, _ in loop.pairs}
        found = sorted(found, key=lambda stratum: known.isdisjoint(stratum.relations))
        numbers = repeated(found, loop)
        last = numbers[-1]
        after = _readers(found, numbers, loop.carried)
        before = [each for each in range(last) if each not in after and each not in numbers]
        found = [found[each] for each in (*before, *numbers, *after, *range(last + 1, len(found)))]
    return found


def repeated(found: list[Stratum], loop: ir.Loop) -> list[int]:
    """Return the numbers of the strata that follow the relations carried from one round to the next, and that the next round
    depends on."""
    made = loop.made | loop.collected
    wanted, numbers = set(made), []
    for number in reversed(range(len(found))):
        if wanted & set(found[number].relations):
            wanted |= found[number].reads
            numbers.append(number)
    reached, following = set(loop.carried), []
    for number in reversed(numbers):
        if made & set(found[number].relations) or reached & found[number].reads:
            reached |= set(found[number].relations)
            following.append(number)
    return following


def _readers(found: list[Stratum], numbers: list[int], carried: set[str]) -> list[int]:
    """Return the strata that read a relation made or carried by a loop, directly or not, stand before the loop's last stratum,
    and are not part of the loop. A relation that no longer depends on itself puts such strata before the first one."""
    reached, after = carried.union(*(found[number].relations for number in numbers)), []
    for number in range(numbers[-1]):
        if number not in numbers and reached & found[number].reads:
            reached |= set(found[number].relations)
            after.append(number)
    return after
