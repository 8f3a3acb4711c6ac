"""The natural join, on any columns.

Each side is read from its index on the join columns, which is built if there is none and then kept. Where no bucket is
refined the two lie side by side, and joining moves nothing; where one is, the other side's tuples go to all subbuckets
of their bucket first (the intra-bucket shuffle).
"""

from semi_naive.ra.evaluation import Plan, first_key, indexes, kept, label, resolve, run
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.stored import Index, Place, Stored
from semi_naive.ra.view import View


class Join(Plan):
    """Tuples of left and right that agree on `pairs` of columns."""

    fuses = True

    def __init__(self, left, right, pairs, columns):
        self.inputs, self.pairs, self.columns = (left, right), tuple(pairs), tuple(columns)

    def title(self) -> str:
        left, right = self.inputs
        on = [(left.columns[a], right.columns[b]) for a, b in self.pairs]
        return f"join on {', '.join(a if a == b else f'{a} = {b}' for a, b in on) or 'nothing'}"

    def forecast(self) -> str:
        keys = self._keys()
        missing = [
            f"an index on ({side.names(key)})" for side, key in zip(self.inputs, keys, strict=True) if kept(side, key) is None
        ]
        return f"{' and '.join(missing)} to be built, then 1 job" if missing else "both indexes are kept: 1 job"

    def evaluate(self, relation, key, view):
        keys = self._keys()
        reused = ["kept" if kept(side, on) else "built" for side, on in zip(self.inputs, keys, strict=True)]
        sides = indexes(list(zip(self.inputs, keys, strict=True)))
        view = View(self.columns).then(view)
        stored, note = joined(relation.layout, sides, keys, view, key)
        names = [side.names(on) for side, on in zip(self.inputs, keys, strict=True)]
        used = ", ".join(f"index ({name}) {how}" for name, how in zip(names, reused, strict=True))
        return stored, f"{used}; {note}"

    def _keys(self):
        """The join columns of both sides, in the order of an index that one of them already has."""
        pairs = self.pairs
        for side, number in zip(self.inputs, (0, 1), strict=True):
            base, view = resolve(side)
            for key in base.stored.indexes if base.stored else ():
                by_column = {view.columns[pair[number]]: pair for pair in pairs}
                if set(by_column) == set(key):
                    ordered = [by_column[column] for column in key]
                    return tuple(tuple(pair[n] for pair in ordered) for n in (0, 1))
        return tuple(tuple(pair[n] for pair in pairs) for n in (0, 1))


def joined(layout, sides: list[tuple[Index, View]], keys, view: View, key, everywhere=False) -> tuple[Stored, str]:
    """Join two indexes: one side moves if it must, the other stays. `everywhere`: the moving side goes to all
    partitions (a product). One job; one shuffle if a side moves, and one if the result must be dealt."""
    from semi_naive.ra.operators.local_join import LocalJoin
    from semi_naive.ra.routing import Routes
    from semi_naive.ra.shuffle import Combine, Deal, Spread

    mover, moves = _mover([index for index, _ in sides]) if not everywhere else (_smaller(sides), True)
    (moving, moving_view), (staying, staying_view) = sides[mover], sides[1 - mover]
    bounds = _bounds(sides, view)
    packing = Packing(moving.seen_bounds(moving_view))
    join = LocalJoin(
        moving.scan(moving_view), staying.scan(staying_view), (keys[mover], keys[1 - mover]), mover == 0, view, packing
    )
    routes = None if everywhere else Routes(staying.place.map)
    spread = Spread("moving", moving.scan(moving_view), packing, keys[mover], layout.partitions, routes)
    place, stays = _place(layout, sides, keys, mover, view, bounds, key)
    stored = Stored(layout, bounds)
    source = join if stays else "made"
    stages = [[spread] if moves else [], [] if stays else [Deal("made", join, place)]]
    run(layout, stages, [Combine("out", (source,), place, stored.store.root, label(place.key))], [stored])
    shuffles = sum(map(bool, stages))
    moved = ("the smaller side to all partitions" if everywhere else "intra-bucket shuffle") if moves else "co-located"
    made = "the result stays" if stays else "the result is dealt"
    return stored, f"{moved}, {made}: 1 job, {('no shuffle', '1 shuffle', '2 shuffles')[shuffles]}"


def _smaller(sides) -> int:
    return int(sides[1][0].count < sides[0][0].count)


def _mover(indexes: list[Index]) -> tuple[int, bool]:
    """Which side moves, and whether anything moves at all."""
    from semi_naive.ra.routing import Routes

    smaller = int(indexes[1].count < indexes[0].count)
    for mover in (smaller, 1 - smaller):
        moving, staying = indexes[mover].place.map, indexes[1 - mover].place.map
        if moving.buckets == staying.buckets and Routes(staying).moves_nothing(moving):
            return mover, False
    return smaller, True


def _bounds(sides, view: View) -> Bounds:
    both = [bound for index, seen in sides for bound in index.seen_bounds(seen)]
    return tuple(both[column] for column in view.columns)


def _place(layout, sides, keys, mover: int, view: View, bounds: Bounds, key) -> tuple[Place, bool]:
    """Where the result goes, and whether it is made there: it is when the columns that the staying side is hashed by,
    or their equals, are still in it and its buckets are whole."""
    staying, seen = sides[1 - mover]
    first = 0 if mover else len(sides[0][1].columns)  # of the staying side's columns, among those of both
    other = len(sides[0][1].columns) - first
    equals = {first + b: other + a for a, b in zip(keys[mover], keys[1 - mover], strict=True)}
    hashed = [first + seen.columns.index(c) if c in seen.columns else None for c in staying.place.key]
    kept = [next((view.columns.index(c) for c in (c, equals.get(c)) if c in view.columns), None) for c in hashed]
    if not staying.place.refined and None not in kept and key in (None, tuple(kept)):
        return Place.keyed(tuple(kept), bounds, staying.place.map), True
    return Place.keyed(first_key(len(bounds)) if key is None else tuple(key), bounds, layout.deal()), False
