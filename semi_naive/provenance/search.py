"""A proof of least height: the tuple's instances, those of their premises, and so on, until facts prove it.

A fact has the height 0, any other tuple one more than the highest premise of the instance that makes it. All proofs of a
height up to k are within the tuples that k steps back lead to. So the search goes back a step at a time, and ends as soon
as the tuple is proven in no more steps than it has gone: it looks only at what could be in such a proof. (Zhao, Subotić,
Scholz 2020, "Debugging large-scale Datalog: a scalable provenance evaluation strategy", look for proofs of least height
as well, by heights that a run writes down.)
"""

from collections.abc import Callable

from semi_naive.provenance.instances import Instance, Instances, Node

GROWN = 1.2  # times as many tuples are looked at, before heights are found out again
MOST = 2_000_000  # instances that a search looks at: some gigabytes


class NotFound(Exception):
    """There is no proof from the facts that are known."""


class TooMany(ValueError):
    """The search has looked at more than it can keep."""


class Search:
    """From one tuple. `given`: whether a tuple is a fact."""

    def __init__(self, instances: Instances, given: Callable[[Node], bool]):
        self.instances, self.given = instances, given
        self.made: dict[Node, list[Instance]] = {}  # of tuples that have been looked at; facts have none
        self.facts: set[Node] = set()  # among them

    def proven(self, node: Node) -> dict[Node, Instance | None]:
        """The tuples of a proof of least height, each with the instance that makes it, None for a fact. NotFound, if there is
        no proof; TooMany if it has looked at MOST instances."""
        wanted, steps, known = self._but_facts([node]), 0, 0
        while True:
            wanted, steps = self._back(wanted), steps + 1
            if wanted and len(self.made) < GROWN * known:
                continue
            known = len(self.made)
            heights, chosen = self._heights()
            if node in heights and (heights[node] <= steps or not wanted):
                return self._needed(node, chosen)
            if not wanted:
                raise NotFound

    def _back(self, wanted: list[Node]) -> list[Node]:
        """Look at some tuples; their premises that have not been looked at."""
        rows: dict[str, list] = {}
        for name, row in wanted:
            self.made[name, row] = []
            rows.setdefault(name, []).append(row)
        for name, some in rows.items():
            for row, instance in self.instances.of(name, some):
                self.made[name, row].append(instance)
        if sum(map(len, self.made.values())) > MOST:
            raise TooMany(
                f"more than {MOST:,} instances of rules may be in a proof of this tuple; there may be one beyond them"
            )
        premises = dict.fromkeys(node for each in wanted for instance in self.made[each] for node in instance.premises)
        fresh = [node for node in premises if node not in self.made]
        return self._but_facts(fresh)

    def _but_facts(self, nodes: list[Node]) -> list[Node]:
        """Those that are to be looked at; each is asked for once whether it is a fact."""
        facts = list(filter(self.given, nodes))
        self.facts.update(facts)
        self.made |= {node: [] for node in facts}
        return [node for node in nodes if node not in self.facts]

    def _heights(self) -> tuple[dict[Node, int], dict[Node, Instance | None]]:
        """Of the tuples that what has been looked at proves: the least height, and an instance of that."""
        users: dict[Node, list[tuple[Node, Instance]]] = {}
        left: dict[Instance, int] = {}
        chosen: dict[Node, Instance | None] = {}
        heights: dict[Node, int] = {}
        facts, alone = [], []  # alone: made by a rule without premises
        for node, instances in self.made.items():
            if node in self.facts:
                chosen[node], heights[node] = None, 0
                facts.append(node)
            for instance in instances:
                premises = instance.premises if len(instance.premises) < 2 else set(instance.premises)
                left[instance] = len(premises)
                for premise in premises:
                    users.setdefault(premise, []).append((node, instance))
                if not premises and node not in chosen:
                    chosen[node], heights[node] = instance, 1
                    alone.append(node)
        now, later, height = facts, alone, 1
        while now or later:
            for premise in now:
                for node, instance in users.get(premise, ()):
                    left[instance] -= 1
                    if not left[instance] and node not in chosen:
                        chosen[node], heights[node] = instance, height
                        later.append(node)
            now, later, height = later, [], height + 1
        return heights, chosen

    @staticmethod
    def _needed(node: Node, chosen: dict[Node, Instance | None]) -> dict[Node, Instance | None]:
        found, waiting = {}, [node]
        while waiting:
            if (each := waiting.pop()) not in found:
                found[each] = instance = chosen[each]
                waiting += instance.premises if instance else ()
        return found
