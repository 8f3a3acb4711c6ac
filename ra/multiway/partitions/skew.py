"""The steps of BiGJoin-S: however skewed the data, each partition has the same work.

    (first)     of the first variable each proposes what it has; its counts are asked for at once
    balance     each deals the proposals it is to make, in equal parts, to all                          (section 3.4)
    resolve     the extensions number low to high of a prefix are asked for by (key, k)
    answer
    check       the other atoms are asked which of them they have, by (key, extension)
    answer
    survive     what all of them have is extended; the next stage's atoms are asked for the counts of their keys
    answer

What is asked for is asked once by each partition, however often it is needed (`asking`): the union of the ranges,
or of the candidates, of all prefixes that have a key in common. The tables are spread by all that is looked up in them
(`spreading`). Prefixes stay where they are but for the balance step, each with its candidates as a range of one
pool that is shared: 25 ns a candidate in all.

*Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, PVLDB 2018, whose authors left it
unimplemented.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.multiway.partitions import wire
from semi_naive.ra.multiway.partitions.answering import Answer
from semi_naive.ra.multiway.partitions.asking import (
    KEPT,
    answers,
    ask,
    ask_members,
    ask_ranges,
    found_members,
    in_ranges,
    keeping,
    kept,
)
from semi_naive.ra.multiway.partitions.dealing import portions
from semi_naive.ra.multiway.partitions.spreading import COUNT, MEMBER, RESOLVER
from semi_naive.ra.multiway.partitions.tasks import PROPOSE, Here, Round, Setting, Task, Waiting, cheapest
from semi_naive.ra.multiway.prefixes.frontier import Frontier, extended
from semi_naive.ra.multiway.prefixes.intersecting import intersect, subtract
from semi_naive.ra.multiway.prefixes.lists import Lists, joined
from semi_naive.ra.multiway.prefixes.unions import distinct, ranges, values
from semi_naive.ra.multiway.prefixes.verbs import NEVER

NOTHING = Lists(*np.empty((4, 0), np.int64))
PIECES = 16  # of a partition's proposals for each other one, dealt in turn, so that neighbours do not stay together


@dataclass
class Balance(Task):
    """What waited, or what arrives with the counts that were asked for, is dealt out: shares[partition] extensions at
    most."""

    shares: list[int]
    waiting: list[Waiting | None]

    def work(self, here: Here, messages):
        proposals = here.begun(self, messages)
        parts, found = here.setting.partitions, [own.frontier().flat().reshape(here.stage.width + 3, -1) for own in proposals]
        if not found:
            return
        columns = np.concatenate(found, axis=1)
        row, first, end, part = portions(columns[-1] - columns[-2], parts, PIECES * parts)
        rows = np.concatenate((columns[:-2, row], columns[-2, row] + np.stack((first, end))))
        destination = (here.partition + part) % parts  # what does not come out even begins here
        for part, own in wire.dealt(rows, destination, parts):
            here.made(own.shape[1])
            yield part, wire.columns_message(self.number + 1, 0, here.partition, own)

    def arrived(self, here: Here, messages) -> Frontier:
        """Count minimisation, over what came back."""
        stage = here.stage
        columns = kept(messages, stage.width + len(stage.proposers))
        prefixes = columns[: stage.width]
        least, proposer = np.full(prefixes.shape[1], NEVER), np.full(prefixes.shape[1], stage.proposers[0])
        for verb, where in zip(stage.proposers, columns[stage.width :], strict=True):
            own = self._counts(here, verb, where, messages)
            proposer[own < least] = verb
            least = np.minimum(least, own)
        here.got(prefixes.shape[1])
        here.did(lookups=prefixes.shape[1] * len(stage.proposers))
        some = least > 0
        here.did(arrived=int(some.sum()))
        return Frontier.of(prefixes[:, some], proposer[some], least[some])

    def _counts(self, here: Here, verb: int, where, messages) -> np.ndarray:
        if verb >= len(here.stage.atoms):
            return np.ones(where.size, np.int64)
        atom = here.stage.atoms[verb]
        if not atom.places:
            return np.full(where.size, here.setting.sizes[atom.index])
        found = answers(messages, verb)
        here.got(found.size)
        return found[where]


@dataclass
class First(Task):
    """All of a round of the first stage but its counts: without a key all tables of members are spread alike, and evenly, so
    what one atom has here is among what the others have here, or nowhere."""

    shares: list[int]
    waiting: list[Waiting | None]

    def work(self, here: Here, messages):
        waiting, stage = here.queue(self.waiting), here.stage
        if not waiting:
            return
        members = {atom.index: here.indexes[MEMBER, atom.index] for atom in stage.atoms}
        for proposer, prefixes, low, high in here.taken(waiting.frontier(0), waiting, self.shares[here.partition]):
            lists = stage.verbs[proposer].propose(members, prefixes, low, high)
            here.made(lists.total)
            for number, verb in enumerate(stage.verbs):
                if number != proposer:
                    here.did(lookups=lists.total * (number < len(stage.atoms)))
                    lists = verb.intersect(members, prefixes, lists)
            here.made(lists.total)
            here.did(survivors=lists.total)
            if here.last:
                yield from here.answer(prefixes, lists)
            else:
                yield from ask_counts(self.number, here, extended(prefixes, lists))


class Resolve(Task):
    """Ask for the extensions this partition has been dealt, by their numbers: those of all prefixes with a key together."""

    def work(self, here: Here, messages):
        width, atoms = here.stage.width, here.stage.atoms
        columns = wire.columns_of(messages, width + 3)
        here.got(columns.shape[1])
        prefixes, proposer, low, high = columns[:width], *columns[width:]
        here.made(int((high - low).sum()))
        starts = np.zeros(low.size, np.int64)
        for verb in here.stage.proposers:
            mine = np.flatnonzero(proposer == verb)
            if verb < len(atoms) and mine.size:
                keys, number = distinct(atoms[verb].keys(prefixes[:, mine]))
                wanted, starts[mine] = ranges(number, low[mine], high[mine])
                here.made(int((wanted[2] - wanted[1]).sum()))
                yield from ask_ranges(self.number + 1, verb, here.partition, keys, wanted, here.setting.partitions)
        if low.size:
            rows = np.concatenate((prefixes, proposer[None], starts[None], (starts + high - low)[None]))
            yield keeping(self.number + 2, here.partition, rows)


class Check(Task):
    """The extensions are known now, as lists: drop those that a comparison drops, ask all other atoms about the rest, what
    they are to say of a key together."""

    def work(self, here: Here, messages):
        width, stage, partitions = here.stage.width, here.stage, here.setting.partitions
        columns = kept(messages, width + 3)
        prefixes, proposer = columns[:width], columns[width]
        lists = joined([NOTHING, *(self._resolved(here, verb, columns, messages) for verb in _present(proposer))])
        lists = lists.chosen(lists.stops > lists.starts)
        asked = np.full((len(stage.atoms), proposer.size), -1)
        for verb, atom in enumerate(stage.atoms):
            mine = lists.chosen(proposer[lists.rows] != verb)
            if mine.rows.size:
                here.did(lookups=mine.total)
                keys, number = distinct(atom.keys(prefixes[:, mine.rows]))
                asked[verb, mine.rows] = number
                begins, found = values(mine, number, keys.shape[1])
                here.made(found.size)
                yield from ask_members(self.number + 1, verb, here.partition, keys, begins, found, partitions)
        if lists.rows.size:
            rows = np.concatenate((columns[: width + 1], asked))
            yield here.partition, wire.lists_message(self.number + 2, KEPT, here.partition, rows, lists)

    def _resolved(self, here: Here, verb: int, columns, messages) -> Lists:
        """What one verb proposes, and all that need no index allow."""
        stage, width, mine = here.stage, here.stage.width, np.flatnonzero(columns[here.stage.width] == verb)
        prefixes = columns[:width, mine]
        if verb < len(stage.atoms):
            found = in_ranges(messages, verb, here.setting.partitions)
            here.got(found.size)
            lists = Lists(np.arange(mine.size), *(column[mine] for column in columns[width + 1 :]), found)
        else:
            lists = stage.verbs[verb].propose({}, prefixes, np.zeros_like(mine), np.ones_like(mine))
        here.got(lists.total)
        for number, other in enumerate(stage.locals, len(stage.atoms)):
            if number != verb:
                lists = other.intersect({}, prefixes, lists)
        return lists._replace(rows=mine[lists.rows])


def _present(proposer: np.ndarray) -> list[int]:
    return np.flatnonzero(np.bincount(proposer)).tolist()


class Survive(Task):
    """Drop what some atom has not (or, negated, has). Answer, or ask the next stage's atoms for counts."""

    def work(self, here: Here, messages):
        stage, width = here.stage, here.stage.width
        columns, lists = wire.lists_of([m for m in messages if m.name == KEPT], width + 1 + len(stage.atoms))
        here.got(lists.total)
        many = columns[width + 1 :].max(axis=1, initial=-1) + 1
        members = {verb: self._members(here, verb, int(many[verb]), messages) for verb in np.flatnonzero(many)}
        found = [np.empty((width + 1, 0), np.int64)]
        for proposer in _present(columns[width]):
            own = self._narrowed(here, proposer, columns, lists.chosen(columns[width] == proposer), members)
            here.made(own.total)
            here.did(survivors=own.total)
            if here.last:
                yield from here.answer(columns[:width], own)
            else:
                found.append(extended(columns[:width], own))
        if not here.last:
            yield from ask_counts(self.number, here, np.concatenate(found, axis=1))

    def _members(self, here: Here, verb: int, many: int, messages):
        begins, found = found_members(messages, verb, many)
        here.got(found.size)
        return begins, found

    def _narrowed(self, here: Here, proposer: int, columns, lists: Lists, members) -> Lists:
        others = [verb for verb in range(len(here.stage.atoms)) if verb != proposer]
        for verb in others:
            groups = columns[here.stage.width + 1 + verb, lists.rows]
            if here.stage.atoms[verb].negated:
                lists = subtract(lists, groups, *members[verb])
            else:
                listing = verb != others[-1] or not here.last or here.setting.output != "count"
                lists = intersect(lists, groups, *members[verb], listing)
        return lists


def ask_counts(number: int, here: Here, prefixes: np.ndarray):
    """Ask the next stage's atoms, as task `number`, for the counts of the prefixes' keys; the prefixes stay."""
    if not prefixes.size:
        return
    stage = here.following
    where = np.zeros((len(stage.proposers), prefixes.shape[1]), np.int64)
    for place, verb in enumerate(stage.proposers):
        if verb < len(stage.atoms) and stage.atoms[verb].places:
            keys = stage.atoms[verb].keys(prefixes)
            asked, where[place] = ask(number + 1, verb, here.partition, keys, here.setting.partitions)
            here.made(sum(message.rows for _, message in asked))
            yield from asked
    yield keeping(number + 2, here.partition, np.concatenate((prefixes, where)))


def chain(setting: Setting, rounds: list[Round]) -> list[Task]:
    """The tasks of a job, round by round."""
    tasks: list[Task] = []
    for stage, shares, waiting in rounds:
        base = len(tasks)
        if stage == 0 and _here(setting.plan, setting.sizes):
            tasks.append(First(setting, base, stage, base, shares, waiting, phase=PROPOSE))
        else:
            tasks += [
                Balance(setting, base, stage, base, shares, waiting, phase=PROPOSE),
                Resolve(setting, base + 1, stage, base, phase="resolve"),
                Answer(setting, base + 2, stage, base, RESOLVER, stage, phase="answer"),
                Check(setting, base + 3, stage, base, phase="check"),
                Answer(setting, base + 4, stage, base, MEMBER, stage, phase="answer"),
                Survive(setting, base + 5, stage, base, phase="survive"),
            ]
        if stage + 1 < len(setting.plan.stages):
            tasks.append(Answer(setting, len(tasks), stage, base, COUNT, stage + 1, phase="answer"))
    return tasks


def _here(plan, sizes) -> bool:
    """Whether the first stage's proposer is an atom, so that each partition proposes what it has."""
    return cheapest(plan, sizes)[0] < len(plan.stages[0].atoms)


def length(plan, stage: int) -> int:
    """How many tasks a round of a stage takes, at most."""
    return 6 if stage + 1 == len(plan.stages) else 7


def start(plan, handles, sizes) -> list[Waiting | None]:
    """What waits at first, by partition: the prefix that binds nothing, with the extensions that are there; or with the
    value of an equation, on the first."""
    proposer, many = cheapest(plan, sizes)
    left = [many] + [0] * (len(handles) - 1)
    if _here(plan, sizes):
        left = [own[MEMBER, plan.stages[0].atoms[proposer].index].size for own in handles]
    return [Waiting(None, proposer, 1, 0, 0, many) if many else None for many in left]
