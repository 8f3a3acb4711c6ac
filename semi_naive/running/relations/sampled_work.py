"""The work of the partitions under a placement of buckets, predicted from a sample of the bindings of rule bodies.

The steps of a body run on a sample of the tuples that it scans, in the driver. Each arrival of the bindings at an index is
kept, with their buckets and what they make there. So any placement is priced by following the same bindings:

    scan edge(x, y) → count edge(x, _) → propose z of edge(y, z) → intersect edge(x, z)

A binding is one unit of work where it is received, and one where it is sent: the measure of `subgraph_queries.record`."""

from collections.abc import Set
from dataclasses import dataclass, field

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of, subbucket_of
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.placing import Index
from semi_naive.planning.joins.trial import sample_pairs
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.by_variable.bigjoin import OFFER, Count, Intersect, Propose, Visit
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Const, Var
from semi_naive.ra.lanes import combined
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.steps import Exchange, Filter, Join
from semi_naive.running.relations.database import Database

MAX_SAMPLED = 1 << 14  # bindings that are followed: the heaviest of 8 or 16 partitions was predicted to 2 %
WHOLE, SPLIT, COPIED = range(3)  # a bucket has one subbucket; one on each partition; or every partition has all of it


@dataclass
class Arrival:
    """The sampled bindings that arrive at indexes in one step.

    parents: for each binding (n,), the row of the previous arrival that it was made of; None for a scan.
    index, bucket: the number of each binding's index, or -1 if it stays where it is; and its bucket there.
    subbucket: its subbucket, if the bucket is split. made_in: the subbucket of the tuple that it was made by.
    sent: the bindings that each makes there. weight: the bindings that a sampled one stands for.
    to_all: all subbuckets of a bucket are searched, not only one.
    scanned: no binding is received, as these are the tuples of the index, or are in its buckets already.
    """

    parents: np.ndarray | None
    index: np.ndarray
    bucket: np.ndarray
    subbucket: np.ndarray
    made_in: np.ndarray
    weight: float
    sent: np.ndarray
    to_all: bool = False
    scanned: bool = False


@dataclass
class SampledWork:
    """The arrivals of several bodies at some indexes. map: the map of whole buckets; indexes: {index: number of key columns};
    known: the relations whose tuples the driver has."""

    database: Database
    map: BucketMap
    indexes: dict[Index, int]
    known: Set[str]
    bodies: list[list[Arrival]] = field(default_factory=list)

    def __post_init__(self):
        """Number the indexes, as arrivals refer to them. homes: the partition of each whole bucket; shape: of work."""
        self.numbers = {index: number for number, index in enumerate(self.indexes)}
        self.homes = np.array([homes[0] for homes in self.map.homes])
        self.shape = len(self.indexes), self.map.buckets
        self.united = np.arange(len(self.indexes))  # for each index the number of the one whose split buckets it shares
        self.searched: set[int] = set()  # the numbers of the indexes that are not only scanned
        self._blocks: dict[Index, Block] = {}
        self._shares: dict[tuple[int, int], np.ndarray] = {}  # by (number of the index, bucket)
        self._cached_buckets: dict[Index, np.ndarray] = {}

    def add(self, body: PlannedBody) -> None:
        """Follow a sample of a body's bindings, to its end or to a step that is not a join or a comparison."""
        self.bodies.append(list(_SampleWalk(self, body).arrivals()))

    def block(self, index: Index) -> Block:
        """Return all tuples of an index as one block, sorted here."""
        if index not in self._blocks:
            columns = self.database.columns(index[0])
            self._blocks[index] = Block.of([columns[i] for i in index[1]], columns.shape[1])
        return self._blocks[index]

    def buckets_of(self, keys: list[np.ndarray]) -> np.ndarray:
        """Return the bucket (n,) of each combination of key values. keys: their columns."""
        return bucket_of(combined(np.array(keys, np.int64)), np.uint64(self.map.buckets)).astype(np.int64)

    def copies(self, group: int, bucket: int) -> dict[Index, float]:
        """Return the tuples copied with a bucket, relative to the size of each index that is searched of a group (`united`)."""
        copies = self.map.partitions - 1
        searched = {name for name, number in self.numbers.items() if number in self.searched and self.united[number] == group}
        return {name: float((self._buckets_of_tuples(name) == bucket).mean()) * copies for name in searched}

    def counts(self, name: Index, buckets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (values, ascending; number of tuples of each) of an index in the buckets that a mask selects."""
        own = buckets[self._buckets_of_tuples(name)]
        values = self.block(name).column(0, np.flatnonzero(own))
        first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
        return values[first], np.diff(first, append=values.size)

    def _buckets_of_tuples(self, name: Index) -> np.ndarray:
        """Return the bucket of each tuple of an index; cached."""
        if name not in self._cached_buckets:
            self._cached_buckets[name] = self.buckets_of(self.block(name).columns()[: self.indexes[name]])
        return self._cached_buckets[name]

    def loads(self) -> np.ndarray:
        """Return the work in each bucket of each index, (indexes, buckets)."""
        loads = np.zeros(self.shape)
        for arrival in (arrival for arrivals in self.bodies for arrival in arrivals):
            own = arrival.index >= 0
            work = arrival.weight * (arrival.sent[own] + (not arrival.scanned))
            np.add.at(loads, (arrival.index[own], arrival.bucket[own]), work)
        return loads

    def of_partitions(self, states: np.ndarray) -> np.ndarray:
        """Return the work of each partition (partitions,). states: WHOLE, SPLIT or COPIED for each bucket of each index."""
        work = np.zeros(self.map.partitions)
        for arrivals in self.bodies:
            at = None
            for arrival in arrivals:
                at = self._priced(arrival, at, states, work)
        return work

    def _priced(self, arrival: Arrival, at: np.ndarray | None, states: np.ndarray, work: np.ndarray) -> np.ndarray:
        """Add the work of an arrival to `work`, and return the partition of each binding after it; -1 - home for a binding that
        is sent to all subbuckets of its bucket. at: the result for the previous arrival."""
        partitions, weight, home = self.map.partitions, arrival.weight, self.homes[arrival.bucket]
        before = home if at is None else at[arrival.parents]
        before = np.where(before < 0, (-1 - before + arrival.made_in) % partitions, before)
        state = np.where(arrival.index >= 0, states[arrival.index, arrival.bucket], COPIED)
        split = state == SPLIT
        after = np.where(state == WHOLE, home, np.where(split, (home + arrival.subbucket) % partitions, before))
        everywhere = split if arrival.to_all else np.zeros(state.size, np.bool_)
        if arrival.scanned and at is not None and not everywhere.any():
            after = before
        elif at is not None:
            if arrival.scanned:  # the bindings are sent from where they were scanned
                work += weight * np.bincount(before, minlength=partitions)
            work += weight * (np.bincount(after[~everywhere], minlength=partitions) + np.count_nonzero(everywhere))
        work += weight * np.bincount(after[~everywhere], arrival.sent[~everywhere], partitions)
        for index, bucket in set(zip(arrival.index[everywhere].tolist(), arrival.bucket[everywhere].tolist(), strict=True)):
            own = (arrival.index == index) & (arrival.bucket == bucket)
            shares = np.roll(self._shares_of_subbuckets(index, bucket), self.homes[bucket])
            work += weight * arrival.sent[own].sum() * shares
        return np.where(everywhere, -1 - home, after)

    def subbuckets_of(self, values: np.ndarray) -> np.ndarray:
        """Return the subbucket of each value of an index's second column, if its bucket is split."""
        return subbucket_of(combined(values[None]), np.uint64(self.map.partitions)).astype(np.int64)

    def _shares_of_subbuckets(self, number: int, bucket: int) -> np.ndarray:
        """Return the share of a bucket's tuples that each subbucket gets if the bucket is split; cached."""
        if (number, bucket) not in self._shares:
            name = list(self.indexes)[number]
            own = np.flatnonzero(self._buckets_of_tuples(name) == bucket)
            counts = np.bincount(self.subbuckets_of(self.block(name).column(1, own)), minlength=self.map.partitions)
            self._shares[number, bucket] = counts / max(1, own.size)
        return self._shares[number, bucket]


class _SampleWalk:
    """The run of one body on a sample. batch: the bindings, with all variables; weight, parents, made_in: see `Arrival`."""

    def __init__(self, work: SampledWork, body: PlannedBody):
        self.work, self.database, self.steps, self.rule = work, work.database, body.derivation.steps, body.rule
        self.weight, self.random = 1.0, np.random.default_rng(1)  # seeded: every run makes the same decisions
        self.batch, self.parents, self.made_in = Batch(0, {}), np.empty(0, np.int64), np.empty(0, np.int64)

    def arrivals(self):
        """Yield the arrivals at indexes of the sampled bindings of the body: of the scan, and of each step that joins, up to
        the first step that the sample cannot follow."""
        scan, *steps = self.steps
        if not isinstance(scan, Join) or scan.keys or not self._scan(scan):
            return
        first_exchange = next((step for step in steps if isinstance(step, Exchange)), None)
        scanned = self._scanned_index(scan, first_exchange)
        self.made_in = np.zeros(self.batch.size, np.int64)
        index_and_bucket = self._buckets([None if scanned is None else first_exchange], self.made_in)
        sent = np.full(self.batch.size, float(scanned is None))  # else the count in these buckets sends them
        subbuckets = self._scanned_subbuckets(scan, scanned)
        arrival = Arrival(None, *index_and_bucket, subbuckets, self.made_in, self.weight, sent, scanned=True)
        yield arrival
        self.parents, pending_exchange = np.arange(self.batch.size), None
        for step in steps:
            if isinstance(step, Exchange | Visit):
                pending_exchange = step
                continue
            if not self.batch.size or not isinstance(step, Count | Propose | Intersect | Join | Filter):
                return
            if isinstance(step, Filter):
                dropped = self._filter(step)
                arrival.sent -= np.bincount(dropped, minlength=arrival.sent.size) * (self.weight / arrival.weight)
                continue
            if not all(self._is_known(search) for search in getattr(step, "steps", (step,))):
                return
            arrival = self._arrive(step, pending_exchange)
            arrival.scanned = scanned is not None and pending_exchange is first_exchange
            yield arrival
            pending_exchange = None

    def _scanned_index(self, scan: Join, first: Exchange | None) -> Index | None:
        """Return the index whose buckets the scanned tuples are in, as the first exchange sends them there; or None."""
        if first is None or (first.relation, first.order) not in self.work.indexes or not first.keys:
            return None
        column_of = {name: scan.order[place] for place, name in scan.binds}
        key = first.keys[0]
        if not isinstance(key, Var) or key.name not in column_of or scan.part not in ("delta", "share"):
            return None
        column = column_of[key.name]
        for index in self.work.indexes:
            if index[0] == scan.relation and index[1][0] == column:
                ours, theirs = self.work.numbers[index], self.work.numbers[first.relation, first.order]
                # buckets of both are split alike, so that the scanned tuples stay in place
                self.work.united[self.work.united == self.work.united[ours]] = self.work.united[theirs]
                return index
        return None

    def _scanned_subbuckets(self, scan: Join, scanned: Index | None) -> np.ndarray:
        """Return the subbucket of each scanned tuple in the index whose buckets it is in."""
        name = scanned and next((name for place, name in scan.binds if scan.order[place] == scanned[1][-1]), None)
        return self.work.subbuckets_of(self.batch.columns[name]) if name else np.zeros(self.batch.size, np.int64)

    def _is_known(self, search) -> bool:
        """True if the driver has the relation that a step searches, and the batch the variables of its keys."""
        keys = (isinstance(key, Const) or isinstance(key, Var) and key.name in self.batch.columns for key in search.keys)
        return search.relation in self.work.known and all(keys)

    def _scan(self, scan: Join) -> bool:
        """Draw a sample of the scanned tuples. Return False if nothing is known of them.

        Of a relation that is made later, each variable is drawn on its own, from a column of another atom."""
        drawn, size = {}, self.database.count(scan.relation) if scan.relation in self.work.known else 0
        if size:
            rows, columns = np.sort(self.random.permutation(size)[:MAX_SAMPLED]), self.database.columns(scan.relation)
            drawn = {name: columns[scan.order[place]][rows] for place, name in scan.binds}
            self.weight = size / rows.size
        for _, name in scan.binds if not size else ():
            atoms = [atom for atom in self.rule.body if getattr(atom, "relation", "") in self.work.known]
            terms = [(atom.relation, place, term) for atom in atoms for place, term in enumerate(atom.args)]
            sources = [(relation, place) for relation, place, term in terms if getattr(term, "name", "") == name]
            if not sources or not self.database.count(sources[0][0]):
                return False
            drawn[name] = self.random.choice(self.database.columns(sources[0][0])[sources[0][1]], MAX_SAMPLED)
        self.batch = Batch(len(next(iter(drawn.values()), ())), drawn)
        return self.batch.size > 0

    def _keys(self, search) -> list[np.ndarray]:
        return [evaluate(term, self.batch.columns, self.batch.size, self.database.values) for term in search.keys]

    def _filter(self, step: Filter) -> np.ndarray:
        """Keep the bindings for which a filter holds, and return the parents of the others."""
        numbered = self.batch.with_columns({"@row": np.arange(self.batch.size)})
        rows, parents = numbered.filtered(step.literal, self.database.values).columns["@row"], self.parents
        self._keep(rows)
        return np.delete(parents, rows)

    def _keep(self, rows: np.ndarray) -> None:
        """Keep only the bindings at the given rows of the batch."""
        self.batch = Batch(rows.size, self.batch.columns.picked(rows))
        self.parents, self.made_in = self.parents[rows], self.made_in[rows]

    def _buckets(self, exchanges: list[Exchange | None], chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (number of the index, bucket) of each binding; chosen: which of the exchanges it takes."""
        index, bucket = np.full(self.batch.size, -1), np.zeros(self.batch.size, np.int64)
        for number, exchange in enumerate(exchanges):
            if exchange and exchange.keys and (name := (exchange.relation, exchange.order)) in self.work.indexes:
                self.work.searched.add(self.work.numbers[name])
                own = chosen == number
                keys = [key[own] for key in self._keys(exchange)[: self.work.indexes[name]]]
                index[own], bucket[own] = self.work.numbers[name], self.work.buckets_of(keys)
        return index, bucket

    def _arrive(self, step, move: Exchange | Visit | None) -> Arrival:
        """Run a step, and return the arrival of the bindings at it. move: how they were sent."""
        searches, chosen = getattr(step, "steps", (step,)), np.zeros(self.batch.size, np.int64)  # chosen: of the searches
        if isinstance(step, Propose | Intersect):
            chosen = (self.batch.columns[OFFER] + getattr(step, "turn", 0)) % len(searches)
        index, bucket = self._buckets(list(move.exchanges) if isinstance(move, Visit) else [move], chosen)
        whole_key = isinstance(step, Intersect) or isinstance(step, Join) and len(step.keys) == len(step.order)
        if whole_key:
            keys = np.array([self._keys(search)[-1] for search in searches])
            subbucket = self.work.subbuckets_of(keys[chosen, np.arange(chosen.size)])
        else:
            subbucket = self.random.integers(0, self.work.map.partitions, chosen.size)
        low, high = self._ranges(searches, chosen)
        counts, extends = high - low, isinstance(step, Propose) or isinstance(step, Join) and bool(step.binds)
        sent = counts.astype(float) if extends else (counts > 0).astype(float)
        to_all = not whole_key and not isinstance(step, Count)
        arrival = Arrival(self.parents, index, bucket, subbucket, self.made_in, self.weight, sent, to_all)
        if isinstance(step, Count):
            offer = counts * step.among + step.number
            offer = np.minimum(offer, self.batch.columns[OFFER]) if step.number else offer
            # after the last count, only the number of the atom is needed
            self.batch = self.batch.with_columns({OFFER: offer % step.among if step.number == step.among - 1 else offer})
        self.parents = np.arange(counts.size)
        if extends:
            self._extend(searches, chosen, low, high)
        else:
            self._keep(np.flatnonzero(sent))
        return arrival

    def _ranges(self, searches, chosen: np.ndarray) -> np.ndarray:
        """Return (low, high) of each binding's tuples in the index that it searches (2, n)."""
        blocks = [self.work.block((search.relation, search.order)) for search in searches]
        ranges = [block.ranges(self._keys(search), chosen.size) for block, search in zip(blocks, searches, strict=True)]
        return np.array(ranges)[chosen, :, np.arange(chosen.size)].T

    def _extend(self, searches, chosen: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        """Extend each binding by its tuples, or make an evenly spaced sample of all extensions. low, high: where the tuples of
        each begin and end."""
        rows, positions, pairs = sample_pairs(low, high, MAX_SAMPLED)
        columns, self.made_in = dict(self.batch.columns.picked(rows).items()), np.zeros(rows.size, np.int64)
        for number, search in enumerate(searches):
            own, block = chosen[rows] == number, self.work.block((search.relation, search.order))
            self.made_in[own] = self.work.subbuckets_of(block.column(len(search.order) - 1, positions[own]))
            for place, name in search.binds:
                columns.setdefault(name, np.zeros(rows.size, np.int64))[own] = block.column(place, positions[own])
        self.batch, self.parents, self.weight = Batch(rows.size, columns), rows, self.weight * max(1.0, pairs / MAX_SAMPLED)
