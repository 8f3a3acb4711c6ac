"""The steps of BiGJoin on partitions: an index is where the hash of its key says, and prefixes and candidates visit it.

    propose      proposers slice their indexes, for at most a share of B' extensions
    visit        candidates are intersected with the indexes there; extended prefixes are counted by the indexes there
    (home)       and go to the proposer that counted least: the next stage begins

*Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, PVLDB 2018, section 3.3.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.multiway.partitions import wire
from semi_naive.ra.multiway.partitions.itinerary import Layout, keyed
from semi_naive.ra.multiway.partitions.tasks import PROPOSE, Here, Round, Setting, Task, Waiting, cheapest
from semi_naive.ra.multiway.prefixes.frontier import Frontier, extended, joined
from semi_naive.ra.multiway.prefixes.lists import Lists, in_order
from semi_naive.ra.multiway.prefixes.verbs import NEVER, Equation


@dataclass
class Keyed(Task):
    layout: Layout

    def sent_on(self, here: Here, proposer: int, number: int, prefixes, lists: Lists):
        """Candidates at their visit `number`: intersected, then on to the next, or extended."""
        visits = self.layout.visits[self.stage][proposer]
        visit = visits[number]
        for place, verb in enumerate(visit.intersects):
            final = visit.extends and here.last and place + 1 == len(visit.intersects)
            listing = not final or here.setting.output != "count"
            here.did(lookups=lists.total)
            lists = here.stage.verbs[verb].intersect(here.indexes, prefixes, lists, listing)
        total = lists.total
        if visit.intersects:
            here.made(total)
        if visit.extends:
            here.did(survivors=total)
        if not visit.extends:
            yield from self._lists_to(here, proposer, number + 1, visits[number + 1].route, prefixes, lists)
        elif here.last:
            yield from here.answer(prefixes, lists)
        elif total:
            columns = self._least_known(here, extended(prefixes, lists))
            yield from self.counted(here, proposer, number, columns)

    def _lists_to(self, here: Here, proposer: int, number: int, route, prefixes, lists: Lists):
        due, partitions = self.base + number, here.setting.partitions
        if route == (here.stage.width,):
            parts = wire.by_value(lists, partitions)
        else:
            parts = wire.by_row(lists, wire.owners(prefixes[list(route)], partitions)[lists.rows], partitions)
        for part, own in parts:
            yield part, wire.lists_message(due, proposer, here.partition, prefixes, own)

    def _least_known(self, here: Here, prefixes) -> np.ndarray:
        """Prefixes of the next stage with the least count that is known without asking, and who offers it."""
        stage, size = here.following, prefixes.shape[1]
        least, proposer = NEVER, stage.proposers[0]
        for number in set(stage.proposers) - set(keyed(stage)):
            verb = stage.verbs[number]
            own = 1 if isinstance(verb, Equation) else here.setting.sizes.get(verb.index, NEVER)
            least, proposer = min((least, proposer), (own, number))
        return np.concatenate((prefixes, np.full((1, size), least), np.full((1, size), proposer)))

    def counted(self, here: Here, proposer: int, number: int, columns):
        """Extended prefixes at their visit `number`, with two columns more, the least count so far and whose it is."""
        visits, stage = self.layout.visits[self.stage][proposer], here.following
        for verb in visits[number].counts:
            own = stage.verbs[verb].count(here.indexes, columns[: stage.width])
            here.did(lookups=own.size)
            columns[-1][own < columns[-2]] = verb
            columns[-2] = np.minimum(columns[-2], own)
            some = columns[-2] > 0
            columns = columns if some.all() else columns[:, some]
        if number + 1 < len(visits):
            yield from self._columns_to(here, self.base + number + 1, proposer, columns, visits[number + 1].route)
        else:
            yield from self._home(here, columns)

    def _columns_to(self, here: Here, due: int, name: int, columns, route):
        owner = wire.owners(columns[list(route)], here.setting.partitions)
        for part, own in wire.dealt(columns, owner, here.setting.partitions):
            yield part, wire.columns_message(due, name, here.partition, own)

    def _home(self, here: Here, columns):
        """To the proposers. An index without a key is everywhere: each partition proposes its share of the values."""
        stage, due = here.following, self.base + self.layout.steps[self.stage]
        for proposer in np.flatnonzero(np.bincount(columns[-1])).tolist():
            mine = columns[-1] == proposer
            own = columns[:-2] if mine.all() else columns[:-2, mine]
            verb = stage.verbs[proposer]
            if isinstance(verb, Equation):
                yield here.partition, wire.columns_message(due, proposer, here.partition, own)
            elif verb.places:
                yield from self._columns_to(here, due, proposer, own, verb.places)
            else:
                for part in range(here.setting.partitions):
                    yield part, wire.columns_message(due, proposer, here.partition, own)


@dataclass
class Propose(Keyed):
    """The first step of a round: what waited, or what arrives, is proposed, shares[partition] extensions at most."""

    shares: list[int]
    waiting: list[Waiting | None]

    def work(self, here: Here, messages):
        for proposals in here.begun(self, messages):
            verb = here.stage.verbs[proposals.proposer]
            lists = verb.propose(here.indexes, *proposals[1:])
            for number, other in enumerate(here.stage.locals, len(here.stage.atoms)):
                if number != proposals.proposer:
                    lists = other.intersect(here.indexes, proposals.prefixes, lists)
            here.made(int((proposals.high - proposals.low).sum()))
            yield from self.sent_on(here, proposals.proposer, 0, proposals.prefixes, lists)

    def arrived(self, here: Here, messages) -> Frontier:
        """What came home from the stage before, those with equal keys side by side: they share lists."""
        found = [Frontier.empty(here.stage.width)]
        for proposer in sorted({message.name for message in messages}):
            prefixes = wire.columns_of([m for m in messages if m.name == proposer], here.stage.width)
            verb = here.stage.verbs[proposer]
            high = verb.count(here.indexes, prefixes)
            here.got(high.size)
            order = np.flatnonzero(high)
            if not isinstance(verb, Equation):
                groups = here.indexes[verb.index].groups(verb.keys(prefixes))
                order = order[in_order(groups[order].view(np.uint64))]
            found.append(Frontier.of(prefixes[:, order], np.full(order.size, proposer), high[order]))
        here.did(arrived=sum(frontier.rows for frontier in found))
        return joined(found)


@dataclass
class Step(Keyed):
    """A visit of candidates, or of prefixes to be counted."""

    def work(self, here: Here, messages):
        number = self.number - self.base
        for proposer in sorted({message.name for message in messages}):
            own = [message for message in messages if message.name == proposer]
            if own[0].pool is not None:
                prefixes, lists = wire.lists_of(own, here.stage.width)
                here.got(lists.total)
                yield from self.sent_on(here, proposer, number, prefixes, lists)
            else:
                columns = wire.columns_of(own, here.following.width + 2)
                here.got(columns.shape[1])
                here.made(columns.shape[1])
                yield from self.counted(here, proposer, number, columns)


@dataclass
class AtOnce:
    """Tasks one after the other that send nothing to other partitions in between: one task."""

    tasks: list[Task]

    def __call__(self, partition, records):
        *first, last = self.tasks
        for task in first:
            records = [record for _, record in task(partition, records)]
        yield from last(partition, records)


def chain(setting: Setting, rounds: list[Round]) -> list[AtOnce]:
    """The tasks of a job, round by round."""
    layout, tasks, number = Layout.of(setting.plan), [], 0
    for stage, shares, waiting in rounds:
        propose = Propose(setting, number, stage, number, layout, shares, waiting, phase=PROPOSE)
        if number and stage and layout.stays[stage - 1] and tasks[-1].tasks[-1].stage == stage - 1:
            tasks[-1].tasks.append(propose)
        else:
            tasks.append(AtOnce([propose]))
        for step in range(1, layout.steps[stage]):
            tasks.append(AtOnce([Step(setting, number + step, stage, number, layout, phase="visit")]))
        number += layout.steps[stage]
    return tasks


def length(plan, stage: int) -> int:
    """How many tasks a round of a stage takes."""
    return Layout.of(plan).steps[stage]


def start(plan, handles, sizes) -> list[Waiting | None]:
    """What waits at first, by partition: the prefix that binds nothing, where the least proposer has extensions for it."""
    proposer, _ = cheapest(plan, sizes)
    if proposer < len(plan.stages[0].atoms):
        index = plan.stages[0].atoms[proposer].index
        left = [own[index].size for own in handles]
    else:
        left = [1] + [0] * (len(handles) - 1)
    return [Waiting(None, proposer, 1, 0, 0, many) if many else None for many in left]
