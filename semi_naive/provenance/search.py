"""Search for a proof of least height, backwards from a tuple: its instances, those of their premises, and so on to facts.

A fact has height 0, any other tuple one more than the highest premise of its instance. All proofs of height at most k consist
of tuples within k steps backwards. So the search proceeds step by step, and ends when it has a proof whose height is at most
the number of steps. It visits only tuples that could be in such a proof. (Zhao, Subotić, Scholz 2020, "Debugging large-scale
Datalog: a scalable provenance evaluation strategy", also find proofs of least height, by heights recorded in a run.)
"""

from array import array
from collections.abc import Callable

import numpy as np

from semi_naive.provenance.instances import Instance, Instances, Node
from semi_naive.ra.blocks import kernels
from semi_naive.ra.words import distinct

GROWTH_BETWEEN_HEIGHTS = 1.2  # growth factor of the number of tuples between two computations of heights
MAX_INSTANCES = 2_000_000  # instances of a search, at most: some gigabytes


class NoProof(Exception):
    """Raised if no proof exists from the known facts."""


class SearchTooLarge(ValueError):
    """Raised if the search exceeds its bound on instances."""


class Search:
    """The search from one tuple. Tuples and instances are numbered, and heights are computed level by level on whole arrays.

    is_fact: True for a tuple that needs no proof.
    """

    def __init__(self, instances: Instances, is_fact: Callable[[Node], bool]):
        self.instances, self.is_fact = instances, is_fact
        self.ids: dict[Node, int] = {}  # number of each known tuple
        self.facts: list[int] = []  # the numbers of facts
        self.instances_found: list[Instance] = []  # by number
        self.heads = array("q")  # the tuple that each instance derives
        self.premises, self.users = array("q"), array("q")  # premises of all instances, and the instance of each premise

    def proven(self, node: Node) -> dict[Node, Instance | None]:
        """Return the tuples of a proof of least height, each with its instance, None for a fact. Raises NoProof if there is no
        proof, and SearchTooLarge after MAX_INSTANCES instances."""
        self.ids[node] = 0
        unexpanded, steps, known_before = self._without_facts([node]), 0, 0  # known: the tuples when heights were last computed
        while True:
            unexpanded, steps = self._expand(unexpanded), steps + 1
            if unexpanded and len(self.ids) < GROWTH_BETWEEN_HEIGHTS * known_before:
                continue
            known_before = len(self.ids)
            height, chosen = self._least_height()
            if height is not None and (height <= steps or not unexpanded):
                return self._proof(chosen)
            if not unexpanded:
                raise NoProof

    def _expand(self, nodes: list[Node]) -> list[Node]:
        """Add the instances that derive some tuples. Return their premises that are new and no facts."""
        rows: dict[str, list] = {}
        for name, row in nodes:
            rows.setdefault(name, []).append(row)
        new_premises: list[Node] = []
        for name, rows_of_name in rows.items():
            for row, instance in self.instances.of(name, rows_of_name):
                self._add(self.ids[name, row], instance, new_premises)
        if len(self.instances_found) > MAX_INSTANCES:
            raise SearchTooLarge(
                f"more than {MAX_INSTANCES:,} instances of rules may be in a proof of this tuple; there may be one beyond them"
            )
        return self._without_facts(new_premises)

    def _add(self, head: int, instance: Instance, new_premises: list[Node]) -> None:
        """Add an instance; new premises are added to `new_premises`."""
        for premise in instance.premises:
            number = self.ids.get(premise)
            if number is None:
                number = self.ids[premise] = len(self.ids)
                new_premises.append(premise)
            self.premises.append(number)
            self.users.append(len(self.instances_found))
        self.heads.append(head)
        self.instances_found.append(instance)

    def _without_facts(self, nodes: list[Node]) -> list[Node]:
        """Record which of some new tuples are facts, and return the others."""
        facts = set(filter(self.is_fact, nodes))
        self.facts += [self.ids[node] for node in facts]
        return [node for node in nodes if node not in facts]

    def _least_height(self) -> tuple[int | None, np.ndarray]:
        """Compute the proven tuples of each height, from 0 up to that of the first tuple. Return (this height, or None if the
        first tuple is not proven yet; the number of an instance of least height for each tuple, -1 for facts)."""
        heads, premises, users = (np.array(numbers, np.int64) for numbers in (self.heads, self.premises, self.users))
        unproven = np.bincount(users, minlength=heads.size)  # premises of each instance
        order = np.argsort(premises, kind="stable")
        begins = np.searchsorted(premises[order], np.arange(len(self.ids) + 1))
        proven, chosen = np.zeros(len(self.ids), np.bool_), np.full(len(self.ids), -1)
        # ready: instances whose premises are all proven
        new, ready, height = np.array(self.facts, np.int64), np.flatnonzero(unproven == 0), 0
        while new.size or ready.size:
            proven[new] = True
            if proven[0]:
                return height, chosen
            # all: for each new tuple, its uses
            _, positions, _, _ = kernels.expand_some(begins[new], begins[new + 1], 0, 0, order.size)
            users_of_new = users[order[positions]]
            np.subtract.at(unproven, users_of_new, 1)
            ready = distinct(np.concatenate([ready, users_of_new[unproven[users_of_new] == 0]]))
            ready = ready[~proven[heads[ready]]]
            chosen[heads[ready][::-1]] = ready[::-1]  # the first of several
            new, ready, height = distinct(heads[ready]), ready[:0], height + 1
        return None, chosen

    def _proof(self, chosen: np.ndarray) -> dict[Node, Instance | None]:
        """Return the tuples of the first tuple's proof, each with its instance. chosen: the number of each tuple's instance."""
        proof: dict[Node, Instance | None] = {}
        stack = [next(iter(self.ids))]
        while stack:
            if (current := stack.pop()) not in proof:
                number = int(chosen[self.ids[current]])
                proof[current] = instance = self.instances_found[number] if number >= 0 else None
                stack += instance.premises if instance else ()
        return proof
