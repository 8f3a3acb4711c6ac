"""Loops: consecutive strata that are evaluated repeatedly, in rounds (see `language.wellfounded`,
`language.reductions.recursive_sums` and `language.stepping`)."""

from collections.abc import Iterable
from dataclasses import dataclass

from semi_naive.planning import rewrite
from semi_naive.planning.strata import Stratum
from semi_naive.ra import ir
from semi_naive.ra.loops import Loop


@dataclass(frozen=True)
class StratumLoop:
    """The consecutive strata that one round of a loop evaluates. of: the loop; numbers: the strata."""

    of: Loop
    numbers: list[int]

    def remade(self, strata: list[Stratum]) -> set[str]:
        """Return the relations that each round replaces, instead of adding to them."""
        return {name for number in self.numbers for name in strata[number].relations} - self.of.collected


def needed(program: ir.Program, keep: set[str] | None, given: Iterable[str]) -> tuple[list[Loop], set[str] | None, set[str]]:
    """Return (the loops on which the relations to keep depend; these relations, with those that the loops read; the relations
    that get tuples without rules: those in `given`, and those that a loop carries from round to round)."""
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


def group_loops(strata: list[Stratum], loops: Iterable[Loop]) -> list[Stratum]:
    """Order strata such that those of each loop are consecutive. They come after the relations that a round gets from earlier
    rounds, which no rule derives, and before every other stratum that reads those relations or the loop's results."""
    for loop in loops:
        known = {known for known, _ in loop.pairs}
        strata = sorted(strata, key=lambda stratum: known.isdisjoint(stratum.relations))  # a stable sort: the known ones first
        numbers = repeated(strata, loop)
        last = numbers[-1]
        after = _readers(strata, numbers, loop.carried)
        before = [number for number in range(last) if number not in after and number not in numbers]
        strata = [strata[number] for number in (*before, *numbers, *after, *range(last + 1, len(strata)))]
    return strata


def repeated(strata: list[Stratum], loop: Loop) -> list[int]:
    """Return the numbers of the strata that a round evaluates: those on which the next round depends, and that depend on
    relations carried from one round to the next."""
    results = loop.computed | loop.collected
    wanted, numbers = set(results), []  # numbers: of strata on which the results depend, the last first
    for number in reversed(range(len(strata))):
        if wanted & set(strata[number].relations):
            wanted |= strata[number].reads
            numbers.append(number)
    changing, inside = set(loop.carried), []
    for number in reversed(numbers):
        if results & set(strata[number].relations) or changing & strata[number].reads:
            changing |= set(strata[number].relations)
            inside.append(number)
    return inside


def _readers(strata: list[Stratum], numbers: list[int], carried: set[str]) -> list[int]:
    """Return the strata that are before the last stratum of a loop but not part of it, and read a relation that the loop makes
    or carries, directly or indirectly. There are such strata if a pass has removed a recursion."""
    changing, after = carried.union(*(strata[number].relations for number in numbers)), []
    for number in range(numbers[-1]):
        if number not in numbers and changing & strata[number].reads:
            changing |= set(strata[number].relations)
            after.append(number)
    return after
