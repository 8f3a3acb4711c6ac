"""Records from nested Python values or text, and back; nothing here recurses, so a list of a million cells is fine.

A record is made when its fields are: nodes are collected first, then given their ids height by height, all of one
height and type with one call of `values.pack`.
"""

from collections import defaultdict

import numpy as np

from semi_naive.io.bits import Mismatch, of_value, shown
from semi_naive.ra.rules.ir import Kind

NIL = 0


class Records:
    """Nodes of one reading: `add` gives each a number, `ids` their record ids once all are there."""

    def __init__(self, types: dict, values):
        self.types, self.values = types, values
        self.nodes = []  # (type name, fields): bits, strings, and numbers of earlier nodes
        self.heights = []

    def add(self, value, type_) -> int | None:
        """The number of the node of a nested value: None is nil, else a tuple, a list, or a dict by the fields' names.
        Mismatch when it does not fit the type."""
        done = []  # numbers of finished records, taken by the records they are fields of
        waiting = [(value, type_, False)]
        while waiting:
            item, kind, entered = waiting.pop()
            if entered:
                done.append(self._node(item, kind, done))
            elif item is None:
                done.append(None)
            else:
                fields = _fields(item, kind)
                waiting.append((fields, kind, True))
                nested = zip(fields, kind.fields, strict=True)
                children = [(f, self.types[name]) for f, (_, name) in nested if self.types[name].kind == Kind.RECORD]
                waiting += [(field, type_of, False) for field, type_of in children]
        return done.pop()

    def _node(self, fields, type_, done: list) -> int:
        """Take the record fields, first to last, from the end of `done`: they were finished last to first."""
        row, height = [], 0
        for value, (_, name) in zip(fields, type_.fields, strict=True):
            kind = self.types[name].kind
            if kind == Kind.RECORD:
                child = done.pop()
                row.append(child)
                height = max(height, 0 if child is None else self.heights[child] + 1)
            else:
                row.append(of_value(value, self.types[name]))
        self.nodes.append((type_.name, row))
        self.heights.append(height)
        return len(self.nodes) - 1

    def ids(self, numbers: list) -> np.ndarray:
        """The record ids of nodes by their numbers; None is nil."""
        found = np.zeros(len(self.nodes) + 1, np.int64)  # the last one is nil
        groups = defaultdict(list)
        for number, (name, _) in enumerate(self.nodes):
            groups[self.heights[number], name].append(number)
        for (_, name), members in sorted(groups.items()):
            found[members] = self._pack(self.types[name], [self.nodes[m][1] for m in members], found)
        return found[[len(self.nodes) if number is None else number for number in numbers]]

    def _pack(self, type_, rows: list, found: np.ndarray) -> np.ndarray:
        columns = np.empty((len(type_.fields), len(rows)), np.int64)
        for at, (_, name) in enumerate(type_.fields):
            column, kind = [row[at] for row in rows], self.types[name].kind
            if kind == Kind.RECORD:
                columns[at] = found[[-1 if child is None else child for child in column]]
            else:
                columns[at] = self.values.intern(column) if kind == Kind.SYMBOL else column
        return self.values.pack(columns)


def _fields(value, type_) -> list:
    """The fields of a record value in order; Mismatch when there are others or fewer."""
    names = [name for name, _ in type_.fields]
    if isinstance(value, dict):
        if set(value) != set(names):
            raise Mismatch(
                f"a {type_.name} has the fields {', '.join(names) or '(none)'}, this has {', '.join(map(str, value))}"
            )
        return [value[name] for name in names]
    if not isinstance(value, (tuple, list)):
        raise Mismatch(f"{shown(value)} ({type(value).__name__}) is not a record of type {type_.name}")
    if len(value) != len(names):
        raise Mismatch(f"a {type_.name} has {len(names)} fields ({', '.join(names)}), this has {len(value)}")
    return list(value)


class Unpacked:
    """The fields of records and of the records in them, fetched level by level: `fields[type name, id]` is a tuple of
    Python values, of records their ids."""

    def __init__(self, ids: np.ndarray, type_, types: dict, values):
        self.types, self.fields = types, {}
        frontier = {type_.name: set(ids.tolist()) - {NIL}}
        while frontier:
            following = defaultdict(set)
            for name, some in frontier.items():
                self._fetch(types[name], sorted(some), values, following)
            frontier = {
                name: new for name, some in following.items() if (new := {i for i in some if (name, i) not in self.fields})
            }

    def _fetch(self, type_, ids: list, values, following: dict) -> None:
        from semi_naive.io.bits import to_value

        raw = values.fields(np.array(ids, np.int64), len(type_.fields))
        columns = []
        for column, (_, name) in zip(raw, type_.fields, strict=True):
            kind = self.types[name].kind
            if kind == Kind.SYMBOL:
                columns.append(values.strings(column))
            else:
                columns.append([to_value(bits, kind) for bits in column.tolist()])
            if kind == Kind.RECORD:
                following[name].update(set(column.tolist()) - {NIL})
        rows = zip(*columns, strict=True) if columns else [()] * len(ids)
        self.fields.update(((type_.name, i), row) for i, row in zip(ids, rows, strict=True))

    def text(self, top: int, type_, style) -> str:
        """One record as text, by a style: nil, scalar(value, kind), and start(names), of a record's pieces of text
        before its fields and after them."""
        parts, waiting = [], [(top, type_)]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                parts.append(item)
                continue
            value, kind = item
            if kind.kind != Kind.RECORD:
                parts.append(style.scalar(value, kind.kind))
            elif value == NIL:
                parts.append(style.nil)
            else:
                pieces = style.pieces([name for name, _ in kind.fields])
                for at in range(len(kind.fields) - 1, -1, -1):
                    waiting += [pieces[at + 1], (self.fields[kind.name, value][at], self.types[kind.fields[at][1]])]
                waiting.append(pieces[0])
        return "".join(parts)

    def value(self, top: int, type_):
        """One record as nested tuples, nil as None."""
        done, waiting = [], [(top, type_, False)]
        while waiting:
            item, kind, entered = waiting.pop()
            if kind.kind != Kind.RECORD:
                done.append(item)
            elif item == NIL:
                done.append(None)
            elif entered:
                count = len(kind.fields)
                done[len(done) - count :] = [tuple(done[len(done) - count :])]
            else:
                waiting.append((item, kind, True))
                row = zip(self.fields[kind.name, item], kind.fields, strict=True)
                waiting += [(field, self.types[name], False) for field, (_, name) in row][::-1]
        return done.pop()
