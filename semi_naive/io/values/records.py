"""Convert nested Python values or text into records, and records back. Nothing is recursive, so lists of a million cells
work.

A record is packed after its fields: nodes are collected first, and then packed by height, all of one height and type by one
call of `values.pack`.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from semi_naive.branch import Branch
from semi_naive.io.values.bits import Mismatch, abbreviated, bits_or_string, to_value
from semi_naive.io.values.record_text import Style, branch_list
from semi_naive.ra.ir import Kind, Type
from semi_naive.ra.values import branches
from semi_naive.ra.values.values import Known, Lookups

NIL = 0
MAX_COPYING_LEVELS = 64  # levels of records up to which the text of each is made: a text of so many is copied as often
NOT_YET = object()  # the tag of a value whose fields have not been visited


class Records:
    """The records of one reading, as nodes: `add` numbers them; `ids` returns their record ids after all have been added."""

    def __init__(self, types: dict, values: Lookups | Known):
        self.types, self.values = types, values
        # (type name, tag of the branch or None, fields): a field is 64 bits, a string, or the number of an earlier node
        self.nodes: list[tuple[str, int | None, list]] = []
        self.heights: list[int] = []  # of each node: 0 if no field is a record

    def add(self, value, type_: Type) -> int | None:
        """Add a nested value, and return the number of its node; None for nil.

        A record is a tuple, a list, or a dict by field names. A branch is a `Branch`, or (name, field, …), or {name: fields}.
        Raises Mismatch for a value that does not fit the type.
        """
        finished: list[int | None] = []  # numbers of finished records, taken by the records they are fields of
        waiting = [(value, type_, NOT_YET)]
        while waiting:
            inner_value, item_type, tag = waiting.pop()
            if tag is not NOT_YET:
                finished.append(self._node(inner_value, item_type, tag, finished))
            elif inner_value is None and not item_type.branches:
                finished.append(None)
            else:
                tag, fields = (
                    _branch(inner_value, item_type)
                    if item_type.branches
                    else (None, _fields(inner_value, item_type.fields, f"a {item_type.name}"))
                )
                waiting.append((fields, item_type, tag))
                nested = zip(fields, fields_of_tag(item_type, tag), strict=True)
                typed = [(field, self.types[name]) for field, (_, name) in nested]
                waiting += [(field, type_of, NOT_YET) for field, type_of in typed if type_of.kind == Kind.RECORD]
        return finished.pop()

    def _node(self, fields, type_: Type, tag, finished: list) -> int:
        """Append the node of a record, and return its number. finished: ends with the nodes of its fields that are records, the
        first field's last; they are removed."""
        row, height = [], 0
        for value, (_, name) in zip(fields, fields_of_tag(type_, tag), strict=True):
            kind = self.types[name].kind
            if kind == Kind.RECORD:
                child = finished.pop()
                row.append(child)
                height = max(height, 0 if child is None else self.heights[child] + 1)
            else:
                row.append(bits_or_string(value, self.types[name]))
        self.nodes.append((type_.name, tag, row))
        self.heights.append(height)
        return len(self.nodes) - 1

    def ids(self, numbers: list) -> np.ndarray:
        """Return the record ids of nodes, given by number; None is nil."""
        record_ids = np.zeros(len(self.nodes) + 1, np.int64)  # the last one is nil
        groups = defaultdict(list)  # numbers of nodes by (height, type name, tag); -1: no branch, as None cannot be sorted
        for number, (name, tag, _) in enumerate(self.nodes):
            groups[self.heights[number], name, -1 if tag is None else tag].append(number)
        for (_, name, tag), members in sorted(groups.items()):
            rows = [fields for _, _, fields in map(self.nodes.__getitem__, members)]
            record_ids[members] = self._pack(self.types[name], None if tag < 0 else tag, rows, record_ids)
        return record_ids[[len(self.nodes) if number is None else number for number in numbers]]

    def _pack(self, type_: Type, tag: int | None, rows: list, record_ids: np.ndarray) -> np.ndarray:
        """Return the record ids of nodes of one type and branch. rows: the fields of each node; record_ids: the record id of
        each node by its number, as far as they are packed."""
        fields = fields_of_tag(type_, tag)
        columns = np.empty((len(fields), len(rows)), np.int64)
        for place, (_, name) in enumerate(fields):
            column, kind = [row[place] for row in rows], self.types[name].kind
            if kind == Kind.RECORD:
                columns[place] = record_ids[[-1 if child is None else child for child in column]]  # -1: the last one, nil
            else:
                columns[place] = self.values.intern(column) if kind == Kind.SYMBOL else column
        return self.values.pack(columns) if tag is None else branches.branch_ids(tag, columns, self.values)


def fields_of_tag(type_: Type, tag: int | None) -> tuple:
    """Return the (name, type name) of each field of a record type, or of the branch with a tag."""
    return type_.fields if tag is None else type_.branches[tag].fields


def _fields(value, fields: tuple, type_text: str) -> list:
    """Return the fields of a record value in order. Raises Mismatch for missing or unknown fields. type_text: the type, for
    errors."""
    names = [name for name, _ in fields]
    if isinstance(value, dict):
        if set(value) != set(names):
            raise Mismatch(f"{type_text} has the fields {', '.join(names) or '(none)'}, this has {', '.join(map(str, value))}")
        return [value[name] for name in names]
    if not isinstance(value, (tuple, list)) or isinstance(value, Branch):
        raise Mismatch(f"{abbreviated(value)} ({type(value).__name__}) is not a record of type {type_text.removeprefix('a ')}")
    if len(value) != len(names):
        raise Mismatch(f"{type_text} has {len(names)} fields ({', '.join(names)}), this has {len(value)}")
    return list(value)


def _branch(value, type_: Type) -> tuple[int, list]:
    """Return (tag, fields) of a branch value. Raises Mismatch if it is none of the type."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, fields),) = value.items()
    elif isinstance(value, (tuple, list)) and value:
        name, *fields = value
    else:
        raise Mismatch(f"{abbreviated(value)} ({type(value).__name__}) is not a branch of {type_.name}: {branch_list(type_)}")
    plain = name.removeprefix("$") if isinstance(name, str) else name
    for tag, branch in enumerate(type_.branches):
        if branch.name == plain:
            return tag, _fields(fields, branch.fields, f"a ${branch.name}")
    raise Mismatch(f"{abbreviated(name)} is not a branch of {type_.name}: {branch_list(type_)}")


class Unpacked:
    """The fields of records and of the records inside them, fetched level by level.

    fields: for each (type name, id): (tag, tuple of Python values, with ids for records). The tag is None unless the type has
    branches.
    converted: the Python value of each record that `value` has visited, by (type name, id).
    """

    def __init__(self, ids: np.ndarray, type_: Type, types: dict, values: Lookups):
        self.types = types
        self.fields: dict[tuple[str, int], tuple] = {}
        self.converted: dict[tuple[str, int], Any] = {}
        frontier = {type_.name: set(ids.tolist()) - {NIL}}
        while frontier:
            pending: defaultdict[str, set[int]] = defaultdict(set)
            for name, ids_of_type in frontier.items():
                self._load(types[name], sorted(ids_of_type), values, pending)
            unknown = ((name, {i for i in ids if (name, i) not in self.fields}) for name, ids in pending.items())
            frontier = {name: ids_of_type for name, ids_of_type in unknown if ids_of_type}

    def _load(self, type_: Type, record_ids: list, values: Lookups, pending: dict) -> None:
        """Load the fields of the records of one type, and add the ids of records in them to `pending`, by type name."""
        ids = np.array(record_ids, np.int64)
        if not type_.branches:
            self._store(type_, None, ids, values.fields(ids, len(type_.fields)), values, pending)
            return
        tags, payloads = branches.tags_and_payloads(ids, values)
        for tag in np.unique(tags).tolist():
            raw = branches.fields(payloads[tags == tag], len(type_.branches[tag].fields), values)
            self._store(type_, tag, ids[tags == tag], raw, values, pending)

    def _store(self, type_: Type, tag: int | None, ids: np.ndarray, raw: np.ndarray, values: Lookups, pending: dict) -> None:
        """Store the fields, `raw`, of records of one type or branch as Python values. pending: see `_load`."""
        columns = []
        for column, (_, name) in zip(raw, fields_of_tag(type_, tag), strict=True):
            kind = self.types[name].kind
            if kind == Kind.SYMBOL:
                columns.append(values.strings(column))
            elif kind in (Kind.NUMBER, Kind.RECORD):
                columns.append(column.tolist())
            else:
                columns.append([to_value(bits, kind) for bits in column.tolist()])
            if kind == Kind.RECORD:
                pending[name].update(set(column.tolist()) - {NIL})
        self._add_records(type_, tag, ids.tolist(), columns)

    def _add_records(self, type_: Type, tag: int | None, ids: list[int], columns: list[list]) -> None:
        """Add records of one type and branch to `fields`. columns: the Python values of each field; ids of records inside."""
        rows = zip(*columns, strict=True) if columns else [()] * len(ids)
        self.fields.update(((type_.name, i), (tag, row)) for i, row in zip(ids, rows, strict=True))

    def value(self, top: int, type_: Type):
        """Return one record as nested tuples, nil as None, a branch as a `Branch`. Shared records are converted once."""
        waiting = [(top, type_, False)]  # with True once the records inside have been converted
        while waiting:
            item, item_type, is_ready = waiting.pop()
            if item == NIL or (item_type.name, item) in self.converted:
                continue
            tag, row = self.fields[item_type.name, item]
            names = (name for _, name in fields_of_tag(item_type, tag))
            inner = [(value, self.types[name]) for value, name in zip(row, names, strict=True)]
            if is_ready:
                fields = [self._python_value(value, field_type) for value, field_type in inner]
                record = tuple(fields) if tag is None else Branch(item_type.branches[tag].name, *fields)
                self.converted[item_type.name, item] = record
            else:
                waiting.append((item, item_type, True))
                waiting += [(value, field_type, False) for value, field_type in inner if field_type.kind == Kind.RECORD]
        return self._python_value(top, type_)

    def _python_value(self, value, type_: Type):
        """Return the Python object of a field, or of a record that has been converted."""
        if type_.kind != Kind.RECORD:
            return value
        return None if value == NIL else self.converted[type_.name, value]


class RecordTexts(Unpacked):
    """Records as text, made column by column: 0.5 µs a field.

    levels: of each level of records, from the outside in, their keys (type name, id) and the columns of their cut texts:
    strings, keys of the records inside, strings, and so on.
    finished: the text of each key. fields: the cut text, last part first, of a key that is not finished.
    """

    def __init__(self, ids: np.ndarray, type_: Type, types: dict, values: Lookups, style: Style):
        self.style = style
        self.levels: list[tuple[list[tuple[str, int]], list[list]]] = []
        self.finished = {(name, NIL): style.nil for name in types}
        super().__init__(ids, type_, types, values)
        for keys, columns in reversed(self.levels):
            self._finish(keys, columns)

    def _add_records(self, type_: Type, tag: int | None, ids: list[int], columns: list[list]) -> None:
        """Add the cut texts of records of one type and branch to `levels`."""
        fields = fields_of_tag(type_, tag)
        names = [name for name, _ in fields]
        before, *after = self.style.pieces(names) if tag is None else self.style.branch(type_.branches[tag].name, names)
        parts: list[list] = []  # columns of finished parts
        texts = [before] * len(ids)  # of the unfinished one
        for column, piece, (_, name) in zip(columns, after, fields, strict=True):
            kind = self.types[name].kind
            if kind == Kind.RECORD:
                parts += [texts, [(name, i) for i in column]]
                texts = [piece] * len(ids)
            elif kind in (Kind.NUMBER, Kind.UNSIGNED):  # the same in every style
                texts = [f"{text}{value}{piece}" for text, value in zip(texts, column, strict=True)]
            else:
                scalar = self.style.scalar
                texts = [f"{text}{scalar(value, kind)}{piece}" for text, value in zip(texts, column, strict=True)]
        keys = [(type_.name, i) for i in ids]
        self.fields.update(dict.fromkeys(keys, ()))  # visited; `_finish` makes the texts
        self.levels.append((keys, [*parts, texts]))

    def _finish(self, keys: list[tuple[str, int]], columns: list[list]) -> None:
        """Make the texts of some records, after those of the records inside; only cut them, if they are too deep to copy a text
        at each level, or if a record inside is also one of an outer level, which is not finished."""
        if len(self.levels) <= MAX_COPYING_LEVELS:
            texts, *rest = columns
            with suppress(KeyError):
                for inner, after in zip(rest[::2], rest[1::2], strict=True):
                    texts = [f"{text}{self.finished[key]}{end}" for text, key, end in zip(texts, inner, after, strict=True)]
                self.finished.update(zip(keys, texts, strict=True))
                return
        self.fields.update(zip(keys, zip(*reversed(columns), strict=True), strict=True))

    def texts(self, ids: Iterable[int], type_: Type) -> list[str]:
        """Return records as text: 0.5 µs for each record inside. The text of one is reused in later ones that contain it."""
        return [self._text((type_.name, top)) for top in ids]

    def _text(self, top: tuple[str, int]) -> str:
        """Return the text of the record (type name, id), and finish it."""
        parts: list[str] = []
        waiting: list = [] if top in self.finished else [*self.fields[top]]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                parts.append(item)
            elif item in self.finished:
                parts.append(self.finished[item])
            else:
                waiting += self.fields[item]
        return self.finished.setdefault(top, "".join(parts))
