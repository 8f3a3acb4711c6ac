"""The tree of a relation's operators, with what each costs or has cost."""

from dataclasses import dataclass, field

from semi_naive.ra.evaluation import Plan


@dataclass
class Node:
    """One line of the tree and what hangs from it."""

    text: str
    below: list["Node"] = field(default_factory=list)

    def lines(self, first: str = "", rest: str = ""):
        yield first + self.text
        for number, node in enumerate(self.below):
            last = number == len(self.below) - 1
            yield from node.lines(rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


class AtRest(Plan):
    """The plan of a relation that has been evaluated: what was done is remembered, what it was done to is not kept."""

    def __init__(self, text: str, note: str, below: list[Node]):
        self.text, self.note, self.below = text, note, below

    def title(self) -> str:
        return self.text


def tree(relation) -> Node:
    """What was done, where a relation is at rest; what will be done, where not."""
    if relation.stored is None:
        return Node(f"{headline(relation)}: {relation.plan.forecast()}", below(relation))
    indexes = "; ".join(f"({relation.names(key)})" for key in relation.stored.indexes)
    kept = f"{relation.stored.count:,} tuples, indexed by {indexes}"
    return Node(f"{relation.plan.title()}: {relation.plan.note} [{kept}]", relation.plan.below)


def headline(relation) -> str:
    return f"{relation.plan.title()} → ({', '.join(relation.columns)})"


def below(relation) -> list[Node]:
    return [tree(parent) for parent in relation.plan.inputs]


def fused_below(relation) -> list[Node]:
    """What hangs from a relation that has just been evaluated: an operator that it was fused into is left out."""
    if relation.view is None:
        return below(relation)
    [parent] = relation.plan.inputs
    if parent.stored is None and parent.plan.fuses:
        return below(parent)
    if parent.stored is None and parent.view is not None:
        return [Node(f"{headline(parent)}: {parent.plan.forecast()}", fused_below(parent))]
    return [tree(parent)]
