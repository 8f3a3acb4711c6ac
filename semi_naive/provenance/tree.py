"""A proof as a tree over its conclusion, in Soufflé's format, as text and as JSON.

At a maximum depth a proof is cut off: `subproof path(0)` stands for the proof with this number, which can be requested
separately.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from semi_naive.provenance.proofs import Proof


@dataclass
class Tree:
    """A node of a proof tree: `text` follows by the rule number `rule` from the nodes above; a leaf has no rule."""

    text: str
    rule: int = 0
    above: list["Tree"] = field(default_factory=list)

    def _inner_last(self) -> list["Tree"]:
        """Return all nodes, each after those above it."""
        found, waiting = [], [self]
        while waiting:
            found.append(waiting.pop())
            waiting += found[-1].above
        return found[::-1]

    def to_text(self) -> str:
        """The lines, with the premises of a step side by side above a bar with its rule's number.

        >>> tree = Tree("path(1, 3)", 2, [Tree("path(1, 2)", 1, [Tree("edge(1, 2)")]), Tree("edge(2, 3)")])
        >>> for line in tree.to_text().split("\\n"):
        ...     print(line, "|")
        edge(1, 2)             |
        -------(R1)            |
        path(1, 2)  edge(2, 3) |
        -------------------(R2) |
              path(1, 3)        |
        """
        drawn: dict[int, list[str]] = {}
        for each in self._inner_last():
            drawn[id(each)] = _draw_above(each, [drawn.pop(id(one)) for one in each.above]) if each.rule else [each.text]
        return "\n".join(drawn[id(self)])

    def to_json(self) -> str:
        """The tree as an object; a leaf is an "axiom"."""
        made: dict[int, str] = {}
        for each in self._inner_last():
            if each.rule:
                above = ",\n".join(made.pop(id(one)) for one in each.above).replace("\n", "\n\t")
                told = f'"premises": {quoted(each.text)},\n  "rule-number": "(R{each.rule})",\n  "children": [\n\t{above}]'
                made[id(each)] = f"{{ {told}\n}}"
            else:
                made[id(each)] = f'{{ "axiom": {quoted(each.text)}}}'
        return made[id(self)]


def tree_of(proof: Proof, depth: int, label: Callable[[Proof], int]) -> Tree:
    """Return a proof as a tree with a given number of levels. label: returns the number of a proof that is cut off."""
    found = Tree("")
    waiting: list[tuple[Proof, int, Tree]] = [(proof, depth, found)]
    while waiting:
        current, levels, node = waiting.pop()
        if current.rule is None:
            node.text = current.atom
        elif levels <= 1:
            node.text = f"subproof {current.relation}({label(current)})"
        else:
            node.text, node.rule = current.atom, current.number
            node.above = [Tree(part if isinstance(part, str) else "") for part in current.body]
            pairs = zip(current.body, node.above, strict=True)
            waiting += [(part, levels - 1, line) for part, line in pairs if isinstance(part, Proof)][::-1]
    return found


def _draw_above(tree: Tree, above: list[list[str]]) -> list[str]:
    """The lines of the blocks above a bar, side by side, the bar, and the text below it."""
    number = f"(R{tree.rule})"
    high = max(map(len, above), default=0)
    rows = ["".join(f"{line} " for line in lines) for lines in zip(*(_raised(block, high) for block in above), strict=True)]
    wide = max(len(rows[0]) if rows else 0, len(tree.text), len(number))
    bar = "-" * (wide - len(number)) + number
    return [f"{line:{wide}}" for line in (*rows, bar, " " * ((wide - len(tree.text)) // 2) + tree.text)]


def _raised(block: list[str], high: int) -> list[str]:
    """Return a block of lines, padded with blank lines at the top to a height."""
    return [" " * len(block[-1])] * (high - len(block)) + block


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)
