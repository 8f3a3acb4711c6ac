"""The steps of BiGJoin-S: however skewed the data, each partition has the same work.

    balance     each deals the proposals it is to make, in equal parts, to all                          (section 3.4)
    resolve     the extension number k of a prefix is asked for by (key, k)
    answer
    check       the other atoms are asked for (key, extension)
    answer
    survive     what all of them have is extended; the next stage's atoms are asked for the counts of their keys
    answer

Keys, candidates and counts are asked for once by each partition however often they are needed (`ra.multiway.asking`), of
tables that are spread by the hash of all that is asked (`ra.multiway.spreading`); prefixes stay where they are but for the
balance step. *Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, PVLDB 2018, whose
authors left it unimplemented.
"""

from dataclasses import dataclass

import numpy as np

from ra.multiway import wire
from ra.multiway.asking import answers, ask, keeping, kept
from ra.multiway.frontier import Frontier, joined, split
from ra.multiway.lists import Lists
from ra.multiway.spreading import COUNT, MEMBER, RESOLVER, looked_up
from ra.multiway.tasks import PROPOSE, Here, Round, Setting, Task, Waiting, cheapest, remove
from ra.multiway.verbs import NEVER

PIECES = 16  # of a partition's proposals for each other one, dealt in turn, so that neighbours do not stay together


@dataclass
class Balance(Task):
    """What waited, or what arrives with the counts that were asked for, is dealt out: shares[partition] extensions at
    most."""

    shares: list[int]
    waiting: list[Waiting | None]

    def work(self, here: Here, messages):
        remove(here.setting.garbage[here.partition])
        waiting = here.queue(self.waiting)
        frontier = waiting.frontier(here.stage.width) if waiting else self._arrived(here, messages)
        proposals = here.taken(frontier, waiting, self.shares[here.partition])
        parts = here.setting.partitions
        taken = joined([Frontier.empty(here.stage.width), *(own.frontier() for own in proposals)])
        for number, part in enumerate(split(taken, parts, PIECES * parts)):
            if part.rows:
                here.made(part.rows)
                columns = part.flat().reshape(here.stage.width + 3, -1)
                destination = (here.partition + number) % parts  # what does not come out even begins here
                yield destination, wire.columns_message(self.number + 1, 0, here.partition, columns)

    def _arrived(self, here: Here, messages) -> Frontier:
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


class Resolve(Task):
    """Write out the extensions this partition has been dealt, by their numbers, and ask what they are."""

    def work(self, here: Here, messages):
        width = here.stage.width
        columns = wire.columns_of(messages, width + 3)
        here.got(columns.shape[1])
        sizes = columns[-1] - columns[-2]
        row = np.repeat(np.arange(sizes.size), sizes)
        number = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + columns[-2][row]
        prefixes, proposer = columns[:width, row], columns[width, row]
        here.made(row.size)
        where = np.zeros(row.size, np.int64)
        for verb in np.flatnonzero(np.bincount(proposer)).tolist():
            mine = proposer == verb
            if verb < len(here.stage.atoms):
                keys = np.concatenate((here.stage.atoms[verb].keys(prefixes[:, mine]), number[None, mine]))
                asked, where[mine] = ask(self.number + 1, verb, here.partition, keys, here.setting.partitions)
                here.made(sum(message.rows for _, message in asked))
                yield from asked
        if row.size:
            yield keeping(self.number + 2, here.partition, np.concatenate((prefixes, proposer[None], where[None])))


@dataclass
class Answer(Task):
    """Look up what is asked in the tables of one kind, those of the atoms of stage `asking`."""

    kind: str
    asking: int

    def work(self, here: Here, messages):
        atoms = here.setting.plan.stages[self.asking].atoms
        for message in messages:
            index = atoms[message.name].index
            (table,) = here.indexes[self.kind, index].parts
            found = looked_up(table, wire.columns_of([message], len(message.columns)))
            here.got(found.size)
            here.made(found.size)
            yield message.source, wire.columns_message(self.number + 1, message.name, here.partition, found[None])


class Check(Task):
    """The extensions are known now: drop those that a comparison drops, ask all other atoms about the rest."""

    def work(self, here: Here, messages):
        width, stage = here.stage.width, here.stage
        columns = kept(messages, width + 2)
        prefixes, proposer, where = columns[:width], columns[width], columns[-1]
        here.got(where.size)
        values = self._resolved(here, prefixes, proposer, where, messages)
        passed = _passed(stage, prefixes, proposer, values)
        prefixes, proposer, values = prefixes[:, passed], proposer[passed], values[passed]
        asked = np.full((len(stage.atoms), values.size), -1)
        for verb, atom in enumerate(stage.atoms):
            mine = proposer != verb
            keys = np.concatenate((atom.keys(prefixes[:, mine]), values[None, mine]))
            questions, asked[verb, mine] = ask(self.number + 1, verb, here.partition, keys, here.setting.partitions)
            here.made(sum(message.rows for _, message in questions))
            here.did(lookups=int(mine.sum()))
            yield from questions
        if values.size:
            yield keeping(self.number + 2, here.partition, np.concatenate((prefixes, values[None], asked)))

    def _resolved(self, here: Here, prefixes, proposer, where, messages) -> np.ndarray:
        values = np.empty(where.size, np.int64)
        for verb in here.stage.proposers:
            mine = proposer == verb
            if verb < len(here.stage.atoms):
                found = answers(messages, verb)
                here.got(found.size)
                values[mine] = found[where[mine]]
            elif mine.any():
                values[mine] = here.stage.verbs[verb].values(prefixes[:, mine])
        return values


def _passed(stage, prefixes, proposer, values) -> np.ndarray:
    """Which candidates the atoms that need no index allow."""
    each = np.arange(values.size)
    lists = Lists(each, each, each + 1, values)
    passed = np.ones(values.size, np.bool_)
    for number, verb in enumerate(stage.locals, len(stage.atoms)):
        allowed = verb.intersect({}, prefixes, lists)
        passed &= (proposer == number) | (allowed.stops > allowed.starts)
    return passed


class Survive(Task):
    """Drop what some atom has not (or, negated, has). Answer, or ask the next stage's atoms for counts."""

    def work(self, here: Here, messages):
        stage, width = here.stage, here.stage.width
        columns = kept(messages, width + 1 + len(stage.atoms))
        alive = np.ones(columns.shape[1], np.bool_)
        for verb, atom in enumerate(stage.atoms):
            found, where = answers(messages, verb), columns[width + 1 + verb]
            here.got(found.size)
            asked = where >= 0
            alive[asked] &= (found[where[asked]] == 0) == atom.negated
        here.got(alive.size)
        bindings = np.ascontiguousarray(columns[: width + 1, alive])
        here.made(bindings.shape[1])
        here.did(survivors=bindings.shape[1])
        if here.last:
            each = np.arange(bindings.shape[1])
            yield from here.answer(bindings[:-1], Lists(each, each, each + 1, bindings[-1]))
        elif bindings.size:
            yield from self._ask_counts(here, bindings)

    def _ask_counts(self, here: Here, prefixes):
        stage = here.following
        where = np.zeros((len(stage.proposers), prefixes.shape[1]), np.int64)
        for place, verb in enumerate(stage.proposers):
            if verb < len(stage.atoms) and stage.atoms[verb].places:
                keys = stage.atoms[verb].keys(prefixes)
                asked, where[place] = ask(self.number + 1, verb, here.partition, keys, here.setting.partitions)
                here.made(sum(message.rows for _, message in asked))
                yield from asked
        yield keeping(self.number + 2, here.partition, np.concatenate((prefixes, where)))


def chain(setting: Setting, rounds: list[Round]) -> list[Task]:
    """The tasks of a job, round by round."""
    tasks: list[Task] = []
    for stage, shares, waiting in rounds:
        base = len(tasks)
        tasks += [
            Balance(setting, base, stage, base, shares, waiting, phase=PROPOSE),
            Resolve(setting, base + 1, stage, base, phase="resolve"),
            Answer(setting, base + 2, stage, base, RESOLVER, stage, phase="answer"),
            Check(setting, base + 3, stage, base, phase="check"),
            Answer(setting, base + 4, stage, base, MEMBER, stage, phase="answer"),
            Survive(setting, base + 5, stage, base, phase="survive"),
        ]
        if stage + 1 < len(setting.plan.stages):
            tasks.append(Answer(setting, base + 6, stage, base, COUNT, stage + 1, phase="answer"))
    return tasks


def length(plan, stage: int) -> int:
    """How many tasks a round of a stage takes."""
    return 6 if stage + 1 == len(plan.stages) else 7


def start(plan, handles, sizes) -> list[Waiting | None]:
    """What waits at first: on the first partition, the prefix that binds nothing."""
    proposer, many = cheapest(plan, sizes)
    first = Waiting(None, proposer, 1, 0, 0, many) if many else None
    return [first] + [None] * (len(handles) - 1)
