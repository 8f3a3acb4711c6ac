"""When and where relations are evaluated: which index serves a reader, which has to be built, and the jobs that do it.

A reader asks for a relation keyed by some columns and gets (index, view): the runs to read, and what to select, project
and rename while reading them.
"""

import os
from dataclasses import dataclass

import numpy as np
from semi_naive.ra.layout import Layout
from semi_naive.ra.packing import Bounds
from semi_naive.ra.stored import Index, Place, Stored
from semi_naive.ra.view import View


class Plan:
    """What an operator knows before it is evaluated."""

    inputs: tuple = ()  # relations
    at_hand = False  # whether `source(stored)` can be dealt at once, together with others
    fuses = False  # whether it can select and project while it makes its tuples

    def title(self) -> str:
        """The operator and its arguments, for explain."""
        raise NotImplementedError

    def forecast(self) -> str:
        """What it will cost, for explain."""
        raise NotImplementedError

    def evaluate(self, relation, key, view: View) -> tuple[Stored, str]:
        """Run the jobs; the tuples seen through `view`, with an index on `key` (None: whichever is cheapest), and what
        it did, for explain."""
        raise NotImplementedError


def resolve(relation) -> tuple[object, View]:
    """The relation whose runs are read for this one, and the view through which."""
    view = View.whole(relation.arity)
    while relation.stored is None and relation.view is not None:
        relation, view = relation.plan.inputs[0], relation.view.then(view)
    relation.check_open()
    return relation, view


def evaluate(relation, key=None) -> Stored:
    """The relation at rest; runs its jobs the first time."""
    relation.check_open()
    if relation.stored is None:
        relation.settle(*relation.plan.evaluate(relation, key, View.whole(relation.arity)))
    return relation.stored


def settled(relation) -> tuple[Stored, View]:
    """The relation at rest, each tuple once, seen through a view that only renames and reorders."""
    base, view = resolve(relation)
    if not view.permutes(base.arity):
        base, view = relation, View.whole(relation.arity)
    return evaluate(base), view


def kept(relation, key) -> tuple[Index, View] | None:
    """The index on `key` that is there already."""
    base, view = resolve(relation)
    index = base.stored and base.stored.indexes.get(tuple(view.columns[k] for k in key))
    return (index, view) if index else None


def owner(relation, key) -> tuple[object, tuple[int, ...]]:
    """Whose index on which of its columns serves this relation's `key`. A selection of a stored relation gets an
    index of its own, which is smaller; everything else reads through the index of what it is a view of."""
    base, view = resolve(relation)
    if view.permutes(base.arity) or (base.stored is None and not base.plan.fuses):
        return base, tuple(view.columns[k] for k in key)
    return relation, tuple(key)


def indexes(requests) -> list[tuple[Index, View]]:
    """The index of each (relation, key); those that only have to be dealt are built together, in one job."""
    for relation, key in requests:
        target, target_key = owner(relation, key)
        if kept(relation, key) is None and target.stored is None and not target.plan.at_hand:
            evaluate(target, target_key)
    missing = []
    for target, key in (owner(*request) for request in requests if kept(*request) is None):
        if not any(target is other and key == other_key for other, other_key in missing):
            missing.append((target, key))
    if missing:
        build(missing)
    return [kept(*request) for request in requests]


def build(targets) -> None:
    """Deal relations that are at hand, or at rest under another key, into an index each. One job, one shuffle."""
    from semi_naive.ra.shuffle import Combine, Deal

    stores, sources, movers, writers = {}, {}, [], []
    for number, (relation, key) in enumerate(targets):
        if id(relation) not in stores:
            stored = relation.stored or Stored(relation.layout, relation.plan.bounds)
            fresh = relation.stored is None
            source = relation.plan.source(stored) if fresh else stored.any_index().scan(View.whole(relation.arity))
            stores[id(relation)], sources[id(relation)] = stored, source
        stored, tag = stores[id(relation)], str(number)
        place = Place.keyed(key, stored.bounds, stored.layout.deal())
        movers.append(Deal(tag, sources[id(relation)], place))
        writers.append(Combine(tag, (tag,), place, stored.store.root, label(key)))
    run(relation.layout, [movers], writers, [stores[id(relation)] for relation, _ in targets])
    for relation, key in targets:
        relation.settle(stores[id(relation)], f"dealt by ({relation.names(key)}): 1 job, 1 shuffle")


def label(key, number: int = 0) -> str:
    return f"by-{'-'.join(map(str, key))}.{number}"


def run(layout: Layout, stages, writers, stores, source=None) -> None:
    """One job: stages of tasks ship, writers write; what they leave becomes an index of the store of the same position.
    As many shuffles as there are stages. Then buckets that are too heavy are refined, at one more job a time.

    An exception that a writer yields is raised here as it is, without Spark's traceback around it."""
    from semi_naive.ra.phases import Together

    tasks = [Together(stage) for stage in stages if stage] + [Together(writers)]
    results = layout.fabric.job(*tasks, source=source)
    for failure in (result for result in results if isinstance(result, Exception)):
        raise failure
    for writer, stored in zip(writers, stores, strict=True):
        _keep(stored, writer.place, [result for result in results if result.tag == writer.tag])
    for writer, stored in zip(writers, stores, strict=True):
        _refine(stored, stored.indexes[writer.place.key])


def _keep(stored: Stored, place: Place, results) -> Index:
    from semi_naive.ra.shuffle import widest

    runs = [[] for _ in range(place.map.partitions)]
    for result in results:
        runs[result.partition] = result.runs
    tight = dict(zip(place.order, widest(results, len(place.order)), strict=True))
    stored.bounds = tuple(tight[column] for column in range(len(place.order)))
    index = Index(place, runs, np.sum([result.sizes for result in results], axis=0), stored.bounds)
    stored.keep(index)
    return index


def _refine(stored: Stored, index: Index) -> None:
    """*Load-balancing Parallel Relational Algebra*, section 3.2; each round deals the whole index once."""
    from semi_naive.ra.shuffle import Combine, Deal

    layout, number = stored.layout, 0
    while (finer := layout.refined(index.place.map, index.sizes)) is not index.place.map:
        number, old = number + 1, index
        place = Place(index.place.order, index.place.keys, index.place.packing, finer)
        mover = Deal("finer", index.scan(View.whole(len(place.order))), place)
        writer = Combine("finer", ("finer",), place, stored.store.root, label(place.key, number))
        index = _keep(stored, place, layout.fabric.job(mover, writer))
        for path in (run.path for runs in old.runs for run in runs):
            if os.path.exists(path):  # on this host; elsewhere they go with the store
                os.unlink(path)


@dataclass
class Reading:
    """One input of an operator that wants equal tuples to meet: read in place, or dealt to `place`."""

    relation: object
    stored: Stored
    view: View

    @classmethod
    def of(cls, relation) -> "Reading":
        base, view = resolve(relation)
        return cls(relation, base.stored, view)

    @property
    def bounds(self) -> Bounds:
        return tuple(self.stored.bounds[column] for column in self.view.columns)

    def keys(self) -> list[tuple[tuple[int, ...], Index]]:
        """The indexes whose key columns all survive the view, with the key as positions after it."""
        visible = {column: position for position, column in reversed(list(enumerate(self.view.columns)))}
        return [
            (tuple(visible[column] for column in key), index)
            for key, index in self.stored.indexes.items()
            if all(column in visible for column in key) and (not index.place.refined or self._whole(index, visible))
        ]

    @staticmethod
    def _whole(index: Index, visible) -> bool:
        """In a refined bucket the other columns decide as well: they must all be there, in the order of a new place."""
        order = [visible.get(column, -1) for column in index.place.order]
        return -1 not in order and order[index.place.keys :] == sorted(order[index.place.keys :])

    def in_place(self, place: Place) -> Index | None:
        """The index by which every tuple already is on the partition where `place` puts it."""
        return next((index for key, index in self.keys() if key == place.key and index.place.map == place.map), None)

    def any_scan(self):
        return self.stored.any_index().scan(self.view)


def ready(relations, key) -> list[Reading]:
    """Make the inputs readable; with a `key`, by preference under that. Data that no job has seen are dealt, all of
    them in one job."""
    requests = []
    for relation in relations:
        base, view = resolve(relation)
        if base.stored is None and base.plan.at_hand:
            requests.append((base, first_key(base.arity)) if key is None else (relation, key))
        elif base.stored is None and key is not None:
            requests.append((relation, key))
        elif base.stored is None:
            evaluate(relation if base.plan.fuses and not view.permutes(base.arity) else base)
    indexes(requests)
    return [Reading.of(relation) for relation in relations]


def first_key(arity: int) -> tuple[int, ...]:
    """What a relation is keyed by when nobody asks for anything else."""
    return (0,) if arity else ()
