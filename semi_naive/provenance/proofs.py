"""Proofs in readable form: each tuple with the rule that derives it, the rule's premises, and its place in the program."""

import builtins
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any

from semi_naive.branch import Branch
from semi_naive.host.numbers import quantity

INDENT = "   "
NOTEBOOK_LINES = 40  # lines of a proof in a notebook


@dataclass(frozen=True, eq=False)
class Proof:
    """A tuple of a relation with its derivation. A proof may be the premise of several others.

    rule: the rule as text, None for a fact; number: its number among the rules of its relation.
    body: the rule's literals in order: premises, which are proofs, and the other literals with values substituted.
    """

    relation: str
    tuple: tuple
    rule: str | None = None
    place: str = ""  # file:line:column of the rule
    number: int = 0
    body: builtins.tuple["Proof | str", ...] = ()

    @property
    def premises(self) -> builtins.tuple["Proof", ...]:
        """The proofs of the rule's premises."""
        return tuple(part for part in self.body if isinstance(part, Proof))

    @property
    def conditions(self) -> builtins.tuple[str, ...]:
        """The other literals of the body: negations, comparisons, aggregates."""
        return tuple(part for part in self.body if isinstance(part, str))

    @property
    def height(self) -> int:
        """The height: 0 for a fact, else one more than the highest premise."""
        heights: dict[int, int] = {}
        for proof in reversed(self._below()):
            below = [heights[id(premise)] for premise in proof.premises]
            heights[id(proof)] = 0 if proof.rule is None else 1 + max(below, default=0)
        return heights[id(self)]

    @property
    def size(self) -> int:
        """The number of distinct tuples in the proof."""
        return len(self._below())

    def _below(self) -> list["Proof"]:
        """Return the proof and all proofs below it, each once, before its premises."""
        done: dict[int, Proof] = {}
        stack: list[tuple[Proof, bool]] = [(self, False)]  # with True once the premises have been visited
        while stack:
            proof, visited = stack.pop()
            if visited:
                done[id(proof)] = proof
            elif id(proof) not in done:
                stack.append((proof, True))
                stack += [(premise, False) for premise in proof.premises if id(premise) not in done]
        return list(done.values())[::-1]

    def renamed(self, rename: Callable[[builtins.tuple], builtins.tuple]) -> "Proof":
        """Return the proof with `rename` applied to all tuples."""
        renamed: dict[int, Proof] = {}
        for proof in reversed(self._below()):
            body = tuple(renamed[id(part)] if isinstance(part, Proof) else part for part in proof.body)
            renamed[id(proof)] = replace(proof, tuple=rename(proof.tuple), body=body)
        return renamed[id(self)]

    def to_text(self, depth: int | None = None) -> str:
        """Return one line for each tuple, its premises below it; repeated tuples are not expanded again. depth: the number of
        levels, None for all."""
        lines: list[str] = []
        expanded: set[int] = set()
        stack = [(self, 0)]
        while stack:
            proof, level = stack.pop()
            first = f"{INDENT * level}{proof.atom}"
            if proof.rule is None:
                lines.append(f"{first}   [fact]")
            elif id(proof) in expanded:
                lines.append(f"{first}   [as above]")
            elif depth is not None and level >= depth:
                lines.append(f"{first}   […]")
            else:
                expanded.add(id(proof))
                lines.append(f"{first}   [{proof.rule}]")
                lines += [f"{INDENT * (level + 1)}{condition}" for condition in proof.conditions]
                stack += [(premise, level + 1) for premise in reversed(proof.premises)]
        return "\n".join(lines)

    @property
    def atom(self) -> str:
        """The tuple in the program's syntax."""
        return atom(self.relation, self.tuple)

    def to_dict(self) -> dict:
        """Return the proof as dictionaries and lists, for JSON; a shared proof is repeated."""
        entries: dict[int, dict] = {}
        for proof in reversed(self._below()):
            entry: dict[str, Any] = {"relation": proof.relation, "tuple": _json_of_value(proof.tuple), "atom": proof.atom}
            if proof.rule is not None:
                entry |= {"rule": proof.rule, "number": proof.number, "place": proof.place}
                premises = [entries[id(premise)] for premise in proof.premises]
                entry |= {"premises": premises, "conditions": list(proof.conditions)}
            entries[id(proof)] = entry
        return entries[id(self)]

    def to_json(self, **options) -> str:
        """Return the proof as JSON text. options: of `json.dumps`."""
        return json.dumps(self.to_dict(), **options)

    def plot(self, path=None):
        """Return the proof as a matplotlib figure: each tuple above the one it is a premise of. `path`: also save it, in the
        format of the extension. A large proof is cut to the 30 tuples nearest to the conclusion."""
        from semi_naive.plots.proofs import proof_figure
        from semi_naive.plots.style import save_figure

        figure = proof_figure(self.to_dict())
        if path is not None:
            save_figure(figure, path)
        return figure

    def _repr_html_(self) -> str:
        """Return the proof's first lines, for a notebook."""
        lines = self.to_text().split("\n")
        if len(lines) > NOTEBOOK_LINES:
            lines = [*lines[:NOTEBOOK_LINES], f"… {len(lines) - NOTEBOOK_LINES:,} more lines"]
        text = "\n".join(lines)
        return f"<p>{escape(self.atom)}, height {self.height}</p><pre>{escape(text)}</pre>"

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Proof of {self.atom}, height {self.height}>"


@dataclass(frozen=True)
class Failure:
    """A rule that does not derive a tuple.

    part: the first literal of its body without a match, or another reason, in words.
    example: values of variables that satisfy the literals before it, as text.
    """

    rule: str
    place: str
    part: str
    example: str = ""

    def __str__(self) -> str:
        return f"{self.rule}\n{INDENT}{self.part}{f'   with {self.example}' if self.example else ''}"


@dataclass(frozen=True)
class WhyNot:
    """The reasons why a tuple is absent: the failure of each rule of its relation."""

    relation: str
    tuple: tuple
    failures: builtins.tuple[Failure, ...]

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return f"<WhyNot of {atom(self.relation, self.tuple)}: {quantity(len(self.failures), 'rule')}>"

    def to_dict(self) -> dict:
        """Return the reasons as dictionaries and lists, for JSON."""
        conclusion = {"relation": self.relation, "tuple": _json_of_value(self.tuple), "atom": atom(self.relation, self.tuple)}
        return conclusion | {"failures": [asdict(failure) for failure in self.failures]}

    def to_json(self, **options) -> str:
        return json.dumps(self.to_dict(), **options)

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """Return each rule with the literal that has no match, as text."""
        head = atom(self.relation, self.tuple)
        if not self.failures:
            return f"{head} is no fact, and no rule makes tuples of {self.relation}"
        return f"{head} is not there:\n" + "\n".join(map(str, self.failures))


def atom(relation: str, values: tuple) -> str:
    """Return a tuple in the program's syntax.

    >>> print(atom("edge", ("a", (1, None))))
    edge("a", [1, nil])
    """
    return f"{relation}({', '.join(map(value_text, values))})"


def value_text(value) -> str:
    """Return a value in the program's syntax."""
    if value is None:
        return "nil"
    if isinstance(value, Branch):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _json_of_value(value):
    """Return a value for JSON; a branch as its text."""
    if isinstance(value, Branch):
        return str(value)
    return [*map(_json_of_value, value)] if isinstance(value, tuple) else value
