"""The strata of an alternating fixpoint, which are evaluated again and again: see `language.wellfounded`."""

from collections.abc import Iterable
from dataclasses import dataclass

from semi_naive.planning.strata import Stratum, names_read

Pairs = tuple[tuple[str, str], ...]  # (what was true a round before, what is true): names of relations


@dataclass(frozen=True)
class Loop:
    """Consecutive strata that follow what was true a round before."""

    pairs: Pairs
    numbers: list[int]


def together(found: list[Stratum], alternations: Iterable[Pairs]) -> list[Stratum]:
    """The strata in an order in which those of each alternation stand one after the other: what stands between them either does
    not read them, and so may come before, or is not read by them."""
    for pairs in alternations:
        numbers = alternating(found, pairs)
        first, last = numbers[0], numbers[-1]
        after = _readers(found, first, last, numbers)
        before = [each for each in range(first, last) if each not in after and each not in numbers]
        found = [found[each] for each in (*range(first), *before, *numbers, *after, *range(last + 1, len(found)))]
    return found


def alternating(found: list[Stratum], pairs: Pairs) -> list[int]:
    """The numbers of the strata that follow what was true a round before, and that what is true depends on."""
    known, true = {known for known, _ in pairs}, {name for _, name in pairs}
    needed, numbers = set(true), []
    for number in reversed(range(len(found))):
        if needed & set(found[number].relations):
            needed |= names_read(found[number].rules)
            numbers.append(number)
    reached, following = set(known), []
    for number in reversed(numbers):
        if true & set(found[number].relations) or reached & names_read(found[number].rules):
            reached |= set(found[number].relations)
            following.append(number)
    return following


def _readers(found: list[Stratum], first: int, last: int, numbers: list[int]) -> list[int]:
    """Those between the first and the last that read some, and are none of them."""
    reached, after = {name for number in numbers for name in found[number].relations}, []
    for number in range(first, last):
        if number not in numbers and reached & names_read(found[number].rules):
            reached |= set(found[number].relations)
            after.append(number)
    return after
