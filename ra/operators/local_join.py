"""The local join: what one partition does. Selection, projection and renaming after the join are fused in."""

from dataclasses import dataclass

import numpy as np
from semi_naive.ra.blocks import join_pairs, sorted_by
from semi_naive.ra.packing import Packing
from semi_naive.ra.shuffle import arrived
from semi_naive.ra.stored import Scan
from semi_naive.ra.view import View


@dataclass
class LocalJoin:
    """A source of the tuples (left…, right…) that agree on the key, seen through a view.

        out(left, right) :- moving(key, left), staying(key, right).

    Physical cost: the moving side's share of this partition in memory, sorted by the key; of the staying side and of
    what is made, a block at a time.
    """

    moving: Scan
    staying: Scan
    keys: tuple[tuple[int, ...], tuple[int, ...]]  # of the moving side, of the staying side
    moving_is_left: bool
    view: View  # of the columns of left, then of right
    packing: Packing  # of moving tuples that come from elsewhere
    tag: str = "moving"

    def blocks(self, partition: int, records=()):
        moving, moving_keys = self._moving(partition, records), list(self.keys[0])
        for staying in self.staying.blocks(partition):
            for pairs in join_pairs(moving[moving_keys], staying[list(self.keys[1])]):
                yield self._made((moving, staying), pairs)

    def _moving(self, partition, records):
        lanes = self.packing.lanes
        parts = list(self.moving.blocks(partition))
        parts += [self.packing.unpack(words) for words in arrived(records, self.tag, lanes)]
        return sorted_by(np.concatenate(parts, axis=1), self.keys[0])

    def _made(self, sides, pairs):
        (left, right), (at_left, at_right) = (sides, pairs) if self.moving_is_left else (sides[::-1], pairs[::-1])

        def column(number):
            return left[number][at_left] if number < len(left) else right[number - len(left)][at_right]

        return self.view.apply(column, at_left.size)
