"""Skew resilience (BiGJoin-S): heavy buckets of an index are split over the partitions when the index is made, or copied to
all.

A value that many tuples have, or that many bindings search for, makes one partition do most of the work. The work is estimated
as the number of pairs of tuples of both sides with the value. A bucket with much more than its share of all pairs gets a
subbucket on each partition, so that each proposes a part of the values that a binding has there. If the bucket is small it is
copied instead, and bindings stay on their partitions (*Distributed Evaluation of Subgraph Queries Using Worst-case Optimal
Low-Memory Dataflows*, Ammar, McSherry, Salihoglu, Joglekar 2018, section 3.4).
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of
from semi_naive.planning.joins.body import PlannedBody, searched_indexes
from semi_naive.planning.joins.placing import Index
from semi_naive.ra.by_variable.bigjoin import Count, Intersect, Propose
from semi_naive.ra.ir import Atom, Var
from semi_naive.ra.lanes import combined
from semi_naive.ra.rules.gathering import Hold
from semi_naive.ra.rules.steps import Join
from semi_naive.running.relations.database import Database

LOOKUPS_PER_COPY = 8  # searches for a tuple from which sending a copy of it is worthwhile
# A partition's share of the work in one bucket from which it is heavy: lighter ones average out to 1.2× the mean.
HEAVY_SHARE = 1 / 16
HEAVY_RATIO = 2  # ratio to an average bucket from which a bucket is heavy: less may be chance


def split_heavy_buckets(
    placement: BucketMap, database: Database, index: Index, joined_with: Iterable[tuple[str, int]], tolerance: float
) -> tuple[BucketMap, list[int]]:
    """Return (map, copied): the bucket map of an index by its first column with heavy buckets split, and the numbers of buckets
    to be copied.

    Nothing is split if the heaviest partition has at most `tolerance` times the average work. joined_with: columns of other
    relations that the index is joined with, as (relation, column). At most as many tuples are copied as the index has.
    """
    relation, order = index
    values, counts = frequencies(database.columns(relation)[order[0]])
    others = np.ones(values.size, np.int64)
    for other, column in joined_with:
        others = np.maximum(others, matches(values, *frequencies(database.columns(other)[column])))
    bucket = bucket_of(combined(values[None]), np.uint64(placement.buckets)).astype(np.int64)
    sizes, work = (
        np.bincount(bucket, weights=weights, minlength=placement.buckets) for weights in (counts, counts * others.astype(float))
    )
    loads = placement.loads(work)
    if loads.max() <= tolerance * loads.mean():
        return placement, []
    heavy = np.flatnonzero(work > max(HEAVY_SHARE / placement.partitions, HEAVY_RATIO / placement.buckets) * work.sum())
    heavy = heavy[np.argsort(sizes[heavy] / work[heavy], kind="stable")]  # copying the first saves most for each tuple
    copied = work[heavy] >= LOOKUPS_PER_COPY * placement.partitions * sizes[heavy]
    copied &= np.cumsum(sizes[heavy]) * (placement.partitions - 1) <= sizes.sum()
    homes, partitions = list(placement.homes), placement.partitions
    for number in heavy[~copied].tolist():
        homes[number] = tuple((number + i) % partitions for i in range(partitions))
    return replace(placement, homes=tuple(homes)), heavy[copied].tolist()


def frequencies(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (distinct values of a column, ascending; the number of times that each occurs).

    >>> [part.tolist() for part in frequencies(np.array([5, 3, 5]))]
    [[3, 5], [1, 2]]
    """
    column = np.sort(column)
    first = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1]))) if column.size else np.empty(0, np.int64)
    return column[first], np.diff(np.append(first, column.size))


def matches(values: np.ndarray, others: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the number of times that each value occurs in another column, given by its `frequencies`: others, counts."""
    if not others.size:
        return np.zeros(values.size, np.int64)
    places = np.minimum(np.searchsorted(others, values), others.size - 1)
    return np.where(others[places] == values, counts[places], 0)


def splittable_indexes(bodies: Iterable[PlannedBody]) -> set[Index]:
    """Return the indexes whose buckets may be split: BiGJoin searches them, and otherwise only joins do. A negation or an
    aggregate needs whole buckets."""
    counted, whole = set(), set()
    for body in bodies:
        steps = body.derivation.steps
        aggregated = any(isinstance(step, Hold) for step in steps)
        for step in steps:
            if isinstance(step, Count):
                counted.add((step.relation, step.order))
            joins = isinstance(step, Count | Propose | Intersect) or isinstance(step, Join) and not step.every
            if aggregated or not joins:
                whole |= searched_indexes([step])
    return counted - whole


def joined_columns(bodies: Iterable[PlannedBody], others: Iterable[Index] = ()) -> dict[Index, frozenset[tuple[str, int]]]:
    """Return the indexes that BiGJoin searches by a variable in their first column, each with the columns, (relation, column),
    of other atoms that have this variable. others: indexes that are only read; they have no columns."""
    columns_of: dict[Index, set[tuple[str, int]]] = {index: set() for index in others}
    for body in bodies:
        atoms = [literal for literal in body.rule.body if isinstance(literal, Atom)]
        for step in (step for step in body.derivation.steps if isinstance(step, Count) and step.keys):
            places = columns_of.setdefault((step.relation, step.order), set())
            if isinstance(key := step.keys[0], Var):
                places |= {(atom.relation, column) for atom in atoms for column, term in enumerate(atom.args) if term == key}
    found = {}
    for (relation, order), places in columns_of.items():
        found[relation, order] = frozenset(places - {(relation, order[0])}) or frozenset(places)  # its own, if no other
    return found
