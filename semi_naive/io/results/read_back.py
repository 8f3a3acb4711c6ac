"""Check that text written without quotes is read back as the same fields and lines."""

import json
import re
from collections.abc import Iterable

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import Mismatch, to_value
from semi_naive.ra.ir import Kind
from semi_naive.ra.text.arrow_arrays import booleans_of


def check_texts(texts: list, pieces: Iterable, relation, form) -> None:
    """Raise BadInput, with the tuple, for the first symbol or record that would be read back otherwise.

    texts: of each column its different texts, None of numbers. pieces: columns of numbers and of positions in these texts, only
    looked at to find the tuple.
    """
    for at, (some, kind) in enumerate(zip(texts, relation.kinds, strict=True)):
        if kind in (Kind.SYMBOL, Kind.RECORD) and (bad := _first_unreadable(some, relation, form, at)) is not None:
            row = next([column[row] for column in piece] for piece in pieces for row in np.flatnonzero(piece[at] == bad)[:1])
            raise _refused(row, texts, relation, form, at)


def _first_unreadable(texts, relation, form, at: int) -> int | None:
    """The position of the first of some texts, a list or a pyarrow array, that would be read back otherwise as attribute
    `at`."""
    suspect = {"\n", "\r", "\ufeff", form.delimiter[0], *("[]()" if "," in form.delimiter else "")}
    pattern = f"[{re.escape(''.join(sorted(suspect)))}]"
    branches, last = any(type_.branches for _, type_ in relation.attributes), at == relation.arity - 1
    for place, text in _suspects(texts, suspect, pattern):
        if not _is_readable(text, form, branches, last) or (at == 0 and text.startswith("\ufeff") and not form.headers):
            return place
    return None


def _suspects(texts, suspect: set[str], pattern: str) -> Iterable[tuple[int, str]]:
    """The texts that contain one of some characters, and their positions. The bytes of many texts are searched once."""
    if isinstance(texts, list):
        found = re.compile(pattern)
        return ((place, text) for place, text in enumerate(texts) if found.search(text))
    import pyarrow.compute as pc

    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if not any((content == each.encode()[0]).any() for each in suspect):
        return ()
    places = np.flatnonzero(booleans_of(pc.match_substring_regex(texts, pattern)))
    return ((place, texts[place].as_py()) for place in places.tolist())


def _is_readable(text: str, form, branches: bool, last: bool) -> bool:
    """True if the reader makes the same field of it, followed by the end of the line or by a delimiter."""
    if "\n" in text or (last and text.endswith("\r")):
        return False
    from semi_naive.io.formats.lines import split_fields

    try:
        fields = [field for _, field in split_fields(text if last else text + form.delimiter, form, branches)]
    except Mismatch:
        return False
    return fields == ([text] if last else [text, ""])


def _refused(row: list, texts: list, relation, form, at: int) -> BadInput:
    """The error of a tuple, given as in `check_texts`."""
    names = [name for name, _ in relation.attributes]
    values = [_value(*given) for given in zip(row, texts, relation.kinds, strict=True)]
    text = _text_of(row[at], texts[at])
    has = next((said for found, said in _reasons(form) if found in text), "brackets or a byte order mark")
    message = f"{relation.name}({', '.join(values)}) would not be read back: {names[at]} has {has}"
    quoted, python = f".output {relation.name}(rfc4180=true) writes it in quotes", "in Python, write(…) to .csv or .parquet"
    return BadInput(message, hint=f"{quoted}, JSON (IO=jsonfile) and parquet (IO=parquet) hold any text; {python}")


def _reasons(form) -> list[tuple[str, str]]:
    separates = "a tab, which separates fields" if form.delimiter == "\t" else f"{form.delimiter!r}, which separates fields"
    return [("\n", "a line break"), ("\r", "a line break"), (form.delimiter, separates)]


def _text_of(key, texts) -> str:
    return texts[int(key)] if isinstance(texts, list) else texts[int(key)].as_py()


def _value(key, texts, kind: Kind) -> str:
    """Return a value as text for messages: symbols as in a program."""
    if texts is None:
        return str(to_value(int(key), kind))
    value = _text_of(key, texts)
    text = json.dumps(value, ensure_ascii=False) if kind == Kind.SYMBOL else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
