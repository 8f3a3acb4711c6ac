"""Values of algebraic data types: a branch is stored as a record of two fields, [tag, payload].

    .type List = Nil {} | Cons {head: number, tail: List}

The tag is the branch's number in the order of names, from 0: `$Cons(7, t)` is [0, [7, t]], and `$Nil()` is [1, 0]. The payload
is 0 for a branch without fields, the value of the field for one with a single field, and a record of the fields otherwise. So
equal branches have equal ids, and only reading and printing need the types.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from semi_naive.ra.values.values import Known, Lookups


def branch_ids(tag: int, fields: np.ndarray, values: "Lookups | Known") -> np.ndarray:
    """Return the ids (n,) of values of branch number `tag`, given the columns (k, n) of their fields. 600 ns a value at most.

    >>> from semi_naive.ra.values.values import Values
    >>> values = Values()
    >>> cons = branch_ids(0, np.array([[7, 8], branch_ids(1, np.empty((0, 2), np.int64), values)]), values)
    >>> tags, payloads = tags_and_payloads(cons, values)
    >>> tags.tolist(), fields(payloads, 2, values)[0].tolist()
    ([0, 0], [7, 8])
    """
    width, size = fields.shape
    if width == 1:
        payload = fields[0]
    else:
        payload = values.pack(fields) if width else np.zeros(size, np.int64)  # without fields it is 0
    return values.pack(np.array([np.full(size, tag), payload], np.int64))


def tags_and_payloads(ids: np.ndarray, values: "Lookups") -> tuple[np.ndarray, np.ndarray]:
    """Return the tags and the payloads of values of an algebraic data type, given their ids."""
    tags, payloads = values.fields(ids, 2)
    return tags, payloads


def fields(payloads: np.ndarray, width: int, values: "Lookups") -> np.ndarray:
    """Return the fields (width, n) of values of a branch with `width` fields, given their payloads."""
    if width < 2:
        return payloads.reshape(1, -1)[:width]
    return values.fields(payloads, width)
