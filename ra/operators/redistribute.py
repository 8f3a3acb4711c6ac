"""The same tuples over another number of partitions or buckets."""

from semi_naive.ra.evaluation import Plan, first_key, label, run, settled
from semi_naive.ra.stored import Place, Stored


class Redistribute(Plan):
    """Read where the relation is, dealt to where it is wanted: one job, one shuffle."""

    def __init__(self, parent):
        self.inputs = (parent,)

    def title(self) -> str:
        return "redistribute"

    def forecast(self) -> str:
        return "1 job, 1 shuffle"

    def evaluate(self, relation, key, view):
        from semi_naive.ra.shuffle import Combine, Deal

        old, seen = settled(self.inputs[0])
        index = old.any_index()
        bounds = index.seen_bounds(seen)
        stored = Stored(relation.layout, bounds)
        place = Place.keyed(first_key(relation.arity) if key is None else tuple(key), bounds, relation.layout.deal())
        mover = Deal("moved", index.scan(seen), place)
        writer = Combine("moved", ("moved",), place, stored.store.root, label(place.key))
        run(relation.layout, [[mover]], [writer], [stored], source=old.layout.fabric.anchors)
        partitions = relation.layout.partitions
        return stored, f"to {partitions} partitions by ({relation.names(place.key)}): 1 job, 1 shuffle"
