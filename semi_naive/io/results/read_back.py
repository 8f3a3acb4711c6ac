"""Check that text written without quotes is read back as the same fields and lines."""

import json
import re
from collections.abc import Iterable

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.formats.layouts import Format
from semi_naive.io.values.bits import Mismatch, to_value
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.text.arrow_arrays import booleans_of


def check_texts(texts: list, pieces: Iterable, relation: Relation, form: Format) -> None:
    """Raise BadInput, with the tuple, for the first symbol or record that would be read back as another one.

    texts: the distinct texts of each column, None for numbers.
    pieces: the rows, as columns (arity, n) of numbers and of positions in these texts; read only to find the tuple.
    """
    for attribute, (texts_of_column, kind) in enumerate(zip(texts, relation.kinds, strict=True)):
        if kind not in (Kind.SYMBOL, Kind.RECORD):
            continue
        bad = _first_unreadable(texts_of_column, relation, form, attribute)
        if bad is not None:
            rows = (piece[:, row] for piece in pieces for row in np.flatnonzero(piece[attribute] == bad))
            raise _refused(list(next(rows)), texts, relation, form, attribute)


def _first_unreadable(texts, relation: Relation, form: Format, attribute: int) -> int | None:
    """Return the position of the first of some texts, a list or a pyarrow array, that would be read back otherwise as this
    attribute; None if there is none."""
    suspect = {"\n", "\r", "\ufeff", form.delimiter[0], *("[]()" if "," in form.delimiter else "")}
    pattern = f"[{re.escape(''.join(sorted(suspect)))}]"
    branches, last = any(type_.branches for _, type_ in relation.attributes), attribute == relation.arity - 1
    for position, text in _suspects(texts, suspect, pattern):
        # at the beginning of a file \ufeff is no part of the text; any tuple may be the first
        if not _is_readable(text, form, branches, last) or (attribute == 0 and text.startswith("\ufeff") and not form.headers):
            return position
    return None


def _suspects(texts, characters: set[str], pattern: str) -> Iterable[tuple[int, str]]:
    """Return (position, text) of the texts that contain one of `characters`. pattern: a regular expression for them."""
    if isinstance(texts, list):
        expression = re.compile(pattern)
        return ((place, text) for place, text in enumerate(texts) if expression.search(text))
    import pyarrow.compute as pc

    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if not any((content == each.encode()[0]).any() for each in characters):
        return ()
    places = np.flatnonzero(booleans_of(pc.match_substring_regex(texts, pattern)))
    return ((place, texts[place].as_py()) for place in places.tolist())


def _is_readable(text: str, form: Format, branches: bool, last: bool) -> bool:
    """True if a text is read as the same field. last: the end of the line follows it, else a delimiter."""
    if "\n" in text or (last and text.endswith("\r")):
        return False
    from semi_naive.io.formats.lines import split_fields

    try:
        fields = [field for _, field in split_fields(text if last else text + form.delimiter, form, branches)]
    except Mismatch:
        return False
    return fields == ([text] if last else [text, ""])


def _refused(row: list, texts: list, relation: Relation, form: Format, attribute: int) -> BadInput:
    """Return the error of a tuple with an unreadable attribute. row: its numbers and positions in `texts`."""
    names = [name for name, _ in relation.attributes]
    values = [_value(*key_texts_and_kind) for key_texts_and_kind in zip(row, texts, relation.kinds, strict=True)]
    text = _text_of(row[attribute], texts[attribute])
    separates = "a tab, which separates fields" if form.delimiter == "\t" else f"{form.delimiter!r}, which separates fields"
    reasons = (("\n", "a line break"), ("\r", "a line break"), (form.delimiter, separates))
    has = next((reason for part, reason in reasons if part in text), "brackets or a byte order mark")
    message = f"{relation.name}({', '.join(values)}) would not be read back: {names[attribute]} has {has}"
    quoted, python = f".output {relation.name}(rfc4180=true) writes it in quotes", "in Python, write(…) to .csv or .parquet"
    return BadInput(message, hint=f"{quoted}, JSON (IO=jsonfile) and parquet (IO=parquet) hold any text; {python}")


def _text_of(key, texts) -> str:
    return texts[int(key)] if isinstance(texts, list) else texts[int(key)].as_py()


def _value(key, texts, kind: Kind) -> str:
    """Return a value as text for messages: symbols as in a program."""
    if texts is None:
        return str(to_value(int(key), kind))
    value = _text_of(key, texts)
    text = json.dumps(value, ensure_ascii=False) if kind == Kind.SYMBOL else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
