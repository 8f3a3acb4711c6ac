"""Missing values: null, None, NaN where no float is read, and an empty field of text where no symbol is.

`ra.ir.Relation.null` says how a relation's facts are read: "error" refuses a missing value; "skip" leaves its row out; any
other text is read in its place, as a value of the attribute. In an attribute of records null is nil.
"""

from collections.abc import Callable

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import Mismatch, bits_of_text
from semi_naive.ra.ir import NULL_IS_ERROR, NULL_IS_SKIPPED, Kind, Relation
from semi_naive.ra.values.values import Values


def complete_columns(
    relation: Relation,
    size: int,
    missing: Callable[[int], np.ndarray],
    convert: Callable[[int, np.ndarray | None], np.ndarray],
    values: Values,
) -> np.ndarray:
    """Return the columns (arity, n) of `size` rows, of which some may be skipped.

    missing(place): returns a mask (size,) of the rows without a value of an attribute.
    convert(place, rows): returns the 64 bits of an attribute's values, in the rows with these numbers; None: in all rows.
    """
    columns, skipped = np.empty((relation.arity, size), np.int64), np.zeros(size, np.bool_)
    for place, (_, type_) in enumerate(relation.attributes):
        absent = None if relation.null == NULL_IS_ERROR or type_.kind == Kind.RECORD else missing(place)
        if absent is None or not absent.any():
            columns[place] = convert(place, None)
            continue
        present = np.flatnonzero(~absent)
        columns[place, present] = convert(place, present)
        # 0 in rows that are dropped below
        columns[place, absent] = 0 if relation.null == NULL_IS_SKIPPED else _replacement(relation, place, values)
        skipped |= absent & (relation.null == NULL_IS_SKIPPED)
    return columns[:, ~skipped] if skipped.any() else columns


def _replacement(relation: Relation, place: int, values: Values) -> int:
    """Return the 64 bits of the value that stands for a missing one of an attribute."""
    name, type_ = relation.attributes[place]
    if type_.kind == Kind.SYMBOL:
        return int(values.intern([relation.null])[0])
    try:
        return bits_of_text(relation.null, type_.kind)
    except Mismatch as wrong:
        hint = f"null= is error, skip, or a {type_.kind}"
        raise BadInput(f"null={relation.null}: {wrong}", f"{relation.name}.{name}", hint=hint) from None
