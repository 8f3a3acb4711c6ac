"""Union, intersection, difference; and distinct, which is a union of one.

    union(t) :- left(t).            intersection(t) :- left(t), right(t).
    union(t) :- right(t).           difference(t)   :- left(t), !right(t).

Equal tuples must meet on one partition. Inputs that are in the right place already are read there, the others dealt.
"""

from functools import reduce

from semi_naive.ra.evaluation import Plan, Reading, first_key, label, ready, run
from semi_naive.ra.packing import Bounds, widen
from semi_naive.ra.stored import Place, Stored


class SetOperation(Plan):
    """`how` over relations with the same schema."""

    def __init__(self, how: str, inputs):
        self.how, self.inputs = how, tuple(inputs)

    def title(self) -> str:
        return self.how

    def forecast(self) -> str:
        return "1 job; inputs hashed alike are read in place, the others shuffled once"

    def evaluate(self, relation, key, view):
        return gather(relation, self.how, self.inputs, key)


def gather(relation, how: str, inputs, key) -> tuple[Stored, str]:
    """Bring the tuples of the inputs together and combine them. One job; no shuffle when all are in place."""
    from semi_naive.ra.shuffle import Combine, Deal

    readings = ready(inputs, key)
    place = _place(readings, key, relation)
    stored = Stored(relation.layout, place.packing.bounds)
    movers, sources, notes = [], [], []
    for number, reading in enumerate(readings):
        index = reading.in_place(place)
        if index is None:
            movers.append(Deal(str(number), reading.any_scan(), place))
        sources.append(str(number) if index is None else index.scan(reading.view))
        notes.append("dealt" if index is None else "in place")
    writer = Combine("out", tuple(sources), place, stored.store.root, label(place.key), how)
    run(relation.layout, [movers], [writer], [stored])
    shuffles = "1 shuffle" if movers else "no shuffle"
    return stored, f"by ({relation.names(place.key)}), {' and '.join(notes)}: 1 job, {shuffles}"


def _place(readings: list[Reading], key, relation) -> Place:
    """Where most of the tuples are already; failing that, dealt afresh."""
    bounds: Bounds = reduce(widen, (reading.bounds for reading in readings))
    candidates = [Place.keyed(key or first_key(relation.arity), bounds, relation.layout.deal())]
    for reading in readings:
        for found, index in reading.keys():
            if key is None or found == tuple(key):
                candidates.append(Place.keyed(found, bounds, index.place.map))
    return max(candidates, key=lambda place: sum(r.stored.count for r in readings if r.in_place(place)))
