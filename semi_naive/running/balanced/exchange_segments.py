"""Cut the body of a rule version into segments for the partitions. Between two segments, bindings are sent to the partitions of
their join partners.
"""

from collections.abc import Iterable, Sequence, Set

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.planning.joins.body import PlannedBody, makes_content, names_of_variables
from semi_naive.ra.by_variable.bigjoin import Visit
from semi_naive.ra.by_variable.multiway import Multiway
from semi_naive.ra.ir import Rule, Term, Var
from semi_naive.ra.partitions.partitioned import PartitionedIndex
from semi_naive.ra.rules.evaluate import Move, Version, WaitingBindings
from semi_naive.ra.rules.gathering import Gather, Hold
from semi_naive.ra.rules.steps import GROUP, Bind, Exchange, Join


class VersionCutter:
    """The construction of a version from a planned body. Steps are appended to the last segment; exchanges begin a new one.

    number: of the version in the job; relations: those on the partitions; groups: the bucket map of the groups of aggregates.
    moves: how bindings are sent between segments.
    holds, gathers: the Hold and the Gather with which a segment begins, by its number.
    waiting: the bindings of Holds whose Gather comes later.
    made_values: by variable, the terms of the symbols and records that the rule makes.
    bucketed_by: (variables, bucket map): the current bindings are on the partitions of the buckets of these variables.
    """

    def __init__(self, number: int, rule: Rule, body: PlannedBody, relations, groups: BucketMap):
        self.number, self.rule, self.body, self.relations, self.groups = number, rule, body, relations, groups
        self.segments: list[list] = [[]]
        self.moves: list[Move] = []
        self.holds: dict[int, WaitingBindings] = {}
        self.gathers: dict[int, tuple[Gather, WaitingBindings]] = {}
        self.waiting: list[WaitingBindings] = []
        self.made_values: dict[str, Term] = {}
        self.bucketed_by: tuple[tuple[str, ...], BucketMap] | None = None

    def version(self) -> Version:
        """Cut the steps of the body into segments, and return the version."""
        for step in self.body.derivation.steps:
            match step:
                case Exchange():
                    self._exchange(step)
                case Visit():
                    self._visit(step)
                case Hold():
                    self._hold(step)
                case Gather():
                    self._gather(step)
                case _:
                    self.segments[-1].append(step)
                    if isinstance(step, Bind) and makes_content(step.term):
                        self.made_values[step.name] = step.term
        return Version(
            self.number, self.body.derivation, self.segments, self.moves, *self._first_read(), self.rule,
            holds=self.holds, gathers=self.gathers,
        )  # fmt: skip

    def _first_read(self) -> tuple[str, tuple, str]:
        """Return the (relation, order, part) that the version reads first, as in `Version`: the relation whose delta or share
        each partition scans. Empty if it scans none."""
        steps = [step for segment in self.segments for step in segment]
        read = next((step for step in steps if isinstance(step, Join | Multiway)), None)
        if isinstance(read, Multiway):
            return "", (), "share" * read.share
        if read is None or read.part not in ("delta", "share"):
            return "", (), ""
        return read.relation, read.order, read.part

    # -- between two segments

    def _exchange(self, step: Exchange) -> None:
        """Cut before a join with a partitioned index, unless the bindings are in its buckets already."""
        index = self.relations[step.relation].index(step.order)
        keys = tuple(getattr(term, "name", "") for term in step.keys[: index.keys])  # "" for a term that is not a variable
        if not self._in_buckets_already(keys, index, step.one):
            move = self._cut(self._variables_of(step.keys), step.keep, index.map if step.keys else "every", len(keys))
            move.copies, move.one = index.copies, step.one and bool(keys)
            move.rest = () if move.one else self._subbucket_places(step, index, range(len(step.keys)))
            # bindings for a copied bucket stay where they are: they are in no buckets
            self.bucketed_by = () if index.copies else keys, index.map

    @staticmethod
    def _subbucket_places(step: Exchange, index: PartitionedIndex, places: Sequence[int]) -> tuple[int, ...]:
        """Return the places of the values that choose the subbucket, if all columns are known and a bucket has several. places:
        of the values of the step's keys among the variables that are sent."""
        whole = len(step.keys) == len(step.order) > index.keys
        return tuple(places[index.keys :]) if whole and (index.map.subbuckets > 1).any() else ()

    def _visit(self, step: Visit) -> None:
        """Send each binding to the index that it searches next. Bindings for a copied index stay on their partition."""
        if not any(step.exchanges):
            return
        keys = [self._variables_of(exchange.keys) if exchange else () for exchange in step.exchanges]
        move = self._cut(dict.fromkeys(name for key in keys for name in key), step.keep, "same")
        moves = []
        for exchange, key in zip(step.exchanges, keys, strict=True):
            if exchange is None:
                moves.append(Move(move.names, "same"))
                continue
            if not key:  # no key is bound, and every partition has some of the values
                moves.append(Move(move.names, "every"))
                continue
            index = self.relations[exchange.relation].index(exchange.order)
            places = tuple(move.names.index(name) for name in key)
            rest = self._subbucket_places(exchange, index, places)
            moves.append(Move(move.names, index.map, places[: index.keys], rest, copies=index.copies))
        move.to, move.turn = tuple(moves), step.turn
        self.bucketed_by = (), self.groups  # bindings are where different indexes have them: in no buckets

    def _hold(self, step: Hold) -> None:
        """Send bindings to the partition of their group. Bindings without a group key stay on their partition."""
        keys = step.outer
        if keys and not self._in_buckets_already(keys, PartitionedIndex((), len(keys), self.groups)):
            self._cut(keys, step.keep, self.groups, len(keys))
        elif self.segments[-1] or len(self.segments) - 1 in self.holds:  # a segment has one `Hold`, with which it begins
            self._cut((), step.keep, "same")
        waiting = self.holds[len(self.segments) - 1] = WaitingBindings(self._columns((), step.keep), keys)
        self.waiting.append(waiting)
        self._begin_segment(keys)
        self.bucketed_by = keys, self.groups

    def _gather(self, step: Gather) -> None:
        """Begin a segment to which the partial results of groups are sent, where the bindings wait for them."""
        self._cut(step.shipped, frozenset(), self.groups if step.outer else "every", len(step.outer), partial=step)
        waiting = self.waiting.pop()
        waiting.until = len(self.segments) - 1
        self.gathers[waiting.until] = step, waiting
        self._begin_segment(waiting.names)
        self.bucketed_by = step.outer, self.groups

    def _cut(self, keyed: Iterable[str], keep: Set[str], to, keys: int = 0, partial: Gather | None = None) -> Move:
        """Begin a new segment, and return the move to it. keyed: the variables that determine the destination, of which the
        first `keys` choose the bucket; keep: variables needed later; to, partial: see `Move`."""
        move = Move(self._columns(keyed, keep), to, tuple(range(keys)), partial=partial)
        self.moves.append(move)
        self.segments.append([])
        if partial is None:  # else `_gather` begins it, with the bindings that have waited
            self._begin_segment(move.names)
        return move

    def _begin_segment(self, columns: tuple[str, ...]) -> None:
        """Make the last segment begin by making the rule's symbols and records again, as their ids are known to one task only.
        columns: the variables that the segment gets."""
        known = set(columns)
        self.segments[-1] = [
            Bind(name, term) for name, term in self.made_values.items() if name in known and names_of_variables(term) <= known
        ]

    @staticmethod
    def _columns(names: Iterable[str], keep: Set[str]) -> tuple[str, ...]:
        """Return the variables that travel: `names`, then those in `keep` but GROUP, which numbers the bindings of a batch."""
        return tuple(names) + tuple(sorted(keep - set(names) - {GROUP}))

    def _variables_of(self, terms: Iterable[Term]) -> tuple[str, ...]:
        """Return a distinct variable for each term of a key. A term that is not a variable, or one for the second time, is
        bound to a generated variable by a step that is added to the segment."""
        names = []
        for place, term in enumerate(terms):
            if isinstance(term, Var) and term.name not in names:
                names.append(term.name)
            else:
                names.append(f"key.{self.number}.{len(self.moves)}.{len(self.segments[-1])}.{place}")
                self.segments[-1].append(Bind(names[-1], term))
        return tuple(names)

    # -- where bindings are

    def _in_buckets_already(self, keys: tuple[str, ...], target: PartitionedIndex, one: bool = False) -> bool:
        """True if the bindings are in the buckets of `target` by the variables `keys` already, so that no exchange is needed.
        A first scan is moved to an index in such buckets if there is one. one: a single subbucket of a bucket is enough."""
        if not keys or not all(keys):
            return False
        if not self.moves and not self.holds and self.bucketed_by is None:
            placement = self._scan_in_buckets(keys, target, one)
            if placement is None:
                return False
            self.bucketed_by = keys, placement
        return self.bucketed_by is not None and self.bucketed_by[0] == keys and target.joins_in_place(self.bucketed_by[1], one)

    def _scan_in_buckets(self, names: tuple[str, ...], target: PartitionedIndex, one: bool) -> BucketMap | None:
        """Scan the first atom in an index whose tuples are on the partitions of `target`'s buckets, by the columns of `names`.
        Return the bucket map of that index; None if there is none. one: see `_in_buckets_already`."""
        scan = self.segments[0][0] if self.segments[0] else None
        if (
            not isinstance(scan, Join)
            or scan.part not in ("delta", "share")
            or scan.keys
            or scan.relation not in self.relations
        ):
            return None
        column = {name: scan.order[place] for place, name in scan.binds}
        for index in self.relations[scan.relation].indexes:
            if tuple(column.get(name) for name in names) == index.order[: index.keys] and target.joins_in_place(index.map, one):
                scan.reorder(index.order)
                return index.map
        return None
