"""A proof as a tree over its conclusion, in Soufflé's format, as text and as JSON.

At a maximum depth a proof is cut off: `subproof path(0)` stands for the proof with this number, a separate request.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from semi_naive.provenance.proofs import Proof


@dataclass
class Tree:
    """A node of a proof tree: its text follows from the nodes above by the rule with number `rule`; 0 for a leaf."""

    text: str
    rule: int = 0
    above: list["Tree"] = field(default_factory=list)

    def _above_first(self) -> list["Tree"]:
        """Return all nodes, each after those above it."""
        nodes, stack = [], [self]
        while stack:
            nodes.append(stack.pop())
            stack += nodes[-1].above
        return nodes[::-1]

    def to_text(self) -> str:
        """Return the tree as lines, with the premises of a step side by side above a bar with its rule's number.

        >>> tree = Tree("path(1, 3)", 2, [Tree("path(1, 2)", 1, [Tree("edge(1, 2)")]), Tree("edge(2, 3)")])
        >>> for line in tree.to_text().split("\\n"):
        ...     print(line, "|")
        edge(1, 2)             |
        -------(R1)            |
        path(1, 2)  edge(2, 3) |
        -------------------(R2) |
              path(1, 3)        |
        """
        lines: dict[int, list[str]] = {}
        for node in self._above_first():
            lines[id(node)] = _draw_above(node, [lines.pop(id(above)) for above in node.above]) if node.rule else [node.text]
        return "\n".join(lines[id(self)])

    def to_json(self) -> str:
        """Return the tree as a JSON object; a leaf is an "axiom"."""
        texts: dict[int, str] = {}
        for node in self._above_first():
            if node.rule:
                children = ",\n".join(texts.pop(id(above)) for above in node.above).replace("\n", "\n\t")
                conclusion = f'"premises": {quoted(node.text)},\n  "rule-number": "(R{node.rule})"'
                texts[id(node)] = f'{{ {conclusion},\n  "children": [\n\t{children}]\n}}'
            else:
                texts[id(node)] = f'{{ "axiom": {quoted(node.text)}}}'
        return texts[id(self)]


def tree_of(proof: Proof, depth: int, label: Callable[[Proof], int]) -> Tree:
    """Return a proof as a tree of at most `depth` levels. label: returns the number of a proof that is cut off."""
    root = Tree("")
    stack: list[tuple[Proof, int, Tree]] = [(proof, depth, root)]
    while stack:
        current, levels, node = stack.pop()
        if current.rule is None:
            node.text = current.atom
        elif levels <= 1:
            node.text = f"subproof {current.relation}({label(current)})"
        else:
            node.text, node.rule = current.atom, current.number
            node.above = [Tree(part if isinstance(part, str) else "") for part in current.body]
            pairs = zip(current.body, node.above, strict=True)
            stack += [(part, levels - 1, above) for part, above in pairs if isinstance(part, Proof)][::-1]
    return root


def _draw_above(tree: Tree, above: list[list[str]]) -> list[str]:
    """Return the lines of a node: the blocks of lines above it side by side, aligned at the bottom, a bar, and its text."""
    number = f"(R{tree.rule})"
    height = max(map(len, above), default=0)
    padded = [[" " * len(block[-1])] * (height - len(block)) + block for block in above]
    rows = ["".join(f"{line} " for line in lines) for lines in zip(*padded, strict=True)]
    width = max(len(rows[0]) if rows else 0, len(tree.text), len(number))
    bar = "-" * (width - len(number)) + number
    return [f"{line:{width}}" for line in (*rows, bar, " " * ((width - len(tree.text)) // 2) + tree.text)]


def quoted(text: str) -> str:
    """Return a text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)
