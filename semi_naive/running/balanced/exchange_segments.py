"""Cut the body of a rule version into segments for the partitions. Between two segments, bindings are sent to the partitions of
their join partners.
"""

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.planning.joins.body import makes_content, names_of_variables
from semi_naive.ra.by_variable.bigjoin import Visit
from semi_naive.ra.by_variable.multiway import Multiway
from semi_naive.ra.ir import Rule, Term, Var
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.rules.evaluate import Move, Version, WaitingBindings
from semi_naive.ra.rules.gathering import Gather, Hold
from semi_naive.ra.rules.steps import Bind, Exchange, Join


def cut_into_segments(number: int, rule: Rule, body, relations: dict[str, PartitionedRelation], groups: BucketMap) -> Version:
    """Return the version of a compiled body, cut into segments. groups: the bucket map of the groups of aggregates."""
    return _Cutting(number, rule, body, relations, groups).version()


class _Cutting:
    """The construction of one version. Steps are appended to the last segment, and exchanges begin a new one.

    moves: how bindings are sent between segments.
    holds, gathers: the Hold and the Gather with which a segment begins, by its number.
    waiting: the bindings that wait for a Gather that has not come yet.
    made: variables of symbols and records that the rule makes.
    at: (variables, bucket map): the current bindings are in the bucket of these variables.
    """

    def __init__(self, number: int, rule: Rule, body, relations, groups: BucketMap):
        self.number, self.rule, self.body, self.relations, self.groups = number, rule, body, relations, groups
        self.segments: list[list] = [[]]
        self.moves: list[Move] = []
        self.holds: dict[int, WaitingBindings] = {}
        self.gathers: dict[int, tuple[Gather, WaitingBindings]] = {}
        self.waiting: list[WaitingBindings] = []
        self.made: dict[str, Term] = {}
        self.at: tuple | None = None

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
                        self.made[step.name] = step.term
        relation, order, part = self._first()
        derivation, moves = self.body.derivation, self.moves
        return Version(
            self.number, derivation, self.segments, moves, relation, order, part, self.rule, 0, self.holds, self.gathers
        )

    def _first(self) -> tuple[str, tuple, str]:
        """Return the (relation, order, part) that the version reads first."""
        steps = [step for segment in self.segments for step in segment]
        read = next((step for step in steps if isinstance(step, Join | Multiway)), None)
        if isinstance(read, Multiway):
            return "", (), "share" * read.share
        if read is None or read.part not in ("delta", "share"):
            return "", (), ""
        return read.relation, read.order, read.part

    # -- between two segments

    def _exchange(self, step: Exchange) -> None:
        """Cut before a join with a partitioned index, unless the bindings are at its buckets already."""
        index = self.relations[step.relation].index(step.order)
        keys = tuple(getattr(term, "name", "") for term in step.keys[: index.keys])  # of a term that is no variable: none
        if not self._here(keys, index):
            self._cut(self._named(step.keys), step.keep, index.map if step.keys else "every", len(keys))
            move = self.moves[-1]
            move.copies, move.one = index.copies, step.one and bool(keys)
            move.rest = () if move.one else self._subbucket_places(step, index, range(len(step.keys)))
            self.at = () if index.copies else keys, index.map

    @staticmethod
    def _subbucket_places(step: Exchange, index: PartitionedIndex, places) -> tuple[int, ...]:
        """Return the places of the values that choose the subbucket, if all columns are known and a bucket has several
        subbuckets."""
        whole = len(step.keys) == len(step.order) > index.keys
        return tuple(places[index.keys :]) if whole and (index.map.subbuckets > 1).any() else ()

    def _visit(self, step: Visit) -> None:
        """Send each binding to the index that it searches next. Bindings for a copied index stay on their partition."""
        if not any(step.exchanges):
            return
        keyed = [self._named(exchange.keys) if exchange else () for exchange in step.exchanges]
        self._cut(dict.fromkeys(name for key in keyed for name in key), step.keep, "same")
        move, moves = self.moves[-1], []
        for exchange, key in zip(step.exchanges, keyed, strict=True):
            if exchange is None:
                moves.append(Move(move.names, "same"))
                continue
            if not key:  # nothing is bound: every partition has some values
                moves.append(Move(move.names, "every"))
                continue
            index = self.relations[exchange.relation].index(exchange.order)
            places = tuple(move.names.index(name) for name in key)
            rest = self._subbucket_places(exchange, index, places)
            moves.append(Move(move.names, index.map, places[: index.keys], rest, copies=index.copies))
        move.to, move.turn, self.at = tuple(moves), step.turn, ((), self.groups)

    def _hold(self, step: Hold) -> None:
        """Send bindings to the partition of their group. Bindings without a group key stay on their partition."""
        keys = step.outer
        if step.outer and not self._here(keys, PartitionedIndex((), len(keys), self.groups)):
            self._cut(step.outer, step.keep, self.groups, len(keys))
        elif self.segments[-1] or len(self.segments) - 1 in self.holds:
            self._cut((), step.keep, "same")
        waiting = self.holds[len(self.segments) - 1] = WaitingBindings(self._columns((), step.keep), step.outer)
        self.waiting.append(waiting)
        self._make_again(step.outer)
        self.at = keys, self.groups

    def _gather(self, step: Gather) -> None:
        """Begin a segment to which the partial results of groups are sent, where the bindings wait for them."""
        self._cut(step.shipped, frozenset(), self.groups if step.outer else "every", len(step.outer), step)
        waiting = self.waiting.pop()
        waiting.until = len(self.segments) - 1
        self.gathers[waiting.until] = step, waiting
        self._make_again(waiting.names)
        self.at = step.outer, self.groups

    def _cut(self, keyed, keep, to, keys: int = 0, partial: Gather | None = None) -> None:
        """Begin a new segment. keyed: the variables that determine the destination; keep: variables needed later; to, keys,
        partial: see `Move`."""
        self.moves.append(Move(self._columns(keyed, keep), to, tuple(range(keys)), partial=partial))
        self.segments.append([])
        if partial is None:
            self._make_again(self.moves[-1].names)

    def _make_again(self, columns: tuple[str, ...]) -> None:
        """Begin a segment with the symbols and records that the rule has made before: no other task knows them yet."""
        known = set(columns)
        again = [Bind(name, term) for name, term in self.made.items() if name in known and names_of_variables(term) <= known]
        self.segments[-1] = again

    @staticmethod
    def _columns(names, keep) -> tuple[str, ...]:
        return tuple(names) + tuple(sorted(keep - set(names) - {"@group"}))

    def _named(self, terms) -> tuple[str, ...]:
        """Return the variables that hold the terms of a key; a term that is not a variable is bound to a new one."""
        names = []
        for place, term in enumerate(terms):
            if isinstance(term, Var) and term.name not in names:
                names.append(term.name)
            else:
                names.append(f"key.{self.number}.{len(self.moves)}.{len(self.segments[-1])}.{place}")
                self.segments[-1].append(Bind(names[-1], term))
        return tuple(names)

    # -- where bindings are

    def _here(self, keys: tuple[str, ...], target: PartitionedIndex) -> bool:
        """True if the bindings are at the bucket of some variables already, so that no exchange is needed."""
        if not keys or not all(keys):
            return False
        if not self.moves and not self.holds and self.at is None:
            found = self._scanned_at(keys, target)
            if found is None:
                return False
            self.at = keys, found
        return self.at is not None and self.at[0] == keys and target.joins_in_place(self.at[1])

    def _scanned_at(self, names: tuple[str, ...], target: PartitionedIndex) -> BucketMap | None:
        """Make the first atom be scanned in an index whose tuples are on the partitions of `target`'s buckets, and return its
        map; None if there is no such index."""
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
            if tuple(column.get(name) for name in names) == index.order[: index.keys] and target.joins_in_place(index.map):
                scan.reorder(index.order)
                return index.map
        return None
