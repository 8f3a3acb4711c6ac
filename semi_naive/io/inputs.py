"""Anything that holds edges, as ``Edges``: files, arrays, data frames, tables, networkx graphs, plain iterables."""

import os
import sys
from itertools import chain

import numpy as np

from semi_naive.io.dataframes import is_spark_frame
from semi_naive.io.edges import Edges, first_odd_id, id_fault, intern, no_pairs
from semi_naive.io.errors import BadInput
from semi_naive.io.readers import read_edges, to_edges
from semi_naive.io.tables import table_block

ACCEPTED = "expected a path, an (n, 2) integer array, a data frame, an Arrow table, a networkx DiGraph or pairs"


def as_edges(source, header=False, expand_symmetric=True, strings=None, any_ids=False, delimiter=None):
    """The ``Edges`` in ``source``.

    ``source`` is a path (see ``read_edges`` for the options; only ``strings`` and ``any_ids`` matter elsewhere), an
    (n, 2) integer array, a pandas or Spark DataFrame or pyarrow table of two columns, a networkx DiGraph (nodes all
    integers or all strings), an iterable of such pairs, or ``Edges``, which come back as they are.

    Everything ends up in this process, a Spark DataFrame too; ``graphs.parallel.spark_edges`` leaves it where it is.
    Raises ``BadInput``.
    """
    if isinstance(source, Edges):
        return source
    if isinstance(source, (str, os.PathLike)):
        return read_edges(source, header, expand_symmetric, strings, any_ids, delimiter)
    for is_kind, read in READERS:
        if is_kind(source):
            return read(source, strings, any_ids)
    raise BadInput(f"a {type(source).__name__} holds no edges", hint=ACCEPTED)


def from_spark(frame, strings=None, any_ids=False):
    """Collects a Spark DataFrame of two columns to the driver."""
    from semi_naive.io.parallel import spark_edges

    blocks = spark_edges(frame, strings=strings, any_ids=any_ids)
    try:
        return blocks.collect()
    finally:
        blocks.release()


def from_array(array, strings=None, any_ids=False):
    """The edges of an (n, 2) integer numpy array (copied if it is not int64)."""
    if array.size == 0 and (array.ndim == 1 or array.shape[1:] == (2,)):
        return from_pairs([], strings)
    if array.ndim != 2 or array.shape[1] != 2:
        raise BadInput(f"expected shape (n, 2), found {array.shape}", "array", hint="one row per edge: source, target")
    if array.dtype.kind in "OUT" or (strings and array.dtype.kind in "iu"):
        return from_pairs(array.tolist(), strings, any_ids)
    if array.dtype.kind not in "iu":
        nan = np.argwhere(np.isnan(array)) if array.dtype.kind == "f" else []
        place, what = (f"edges[{nan[0][0]}]", "NaN is no vertex; the array") if len(nan) else ("array", "the array")
        raise BadInput(f"{what} has dtype {array.dtype}", place, hint="vertices are integers: use .astype('int64')")
    if array.dtype == np.uint64 and (big := np.argwhere(array > np.uint64(2**63 - 1))).size:
        _raise_odd(array, big[0], any_ids)
    pairs = np.ascontiguousarray(array, np.int64)
    odd = None if any_ids else first_odd_id(pairs)
    if odd:
        _raise_odd(pairs, odd, any_ids)
    return Edges(pairs)


def from_table(table, strings=None, any_ids=False):
    """The edges of a pyarrow table of two columns."""
    return to_edges(table_block(table, "Table", strings, any_ids))


def from_frame(frame, strings=None, any_ids=False):
    """The edges of a pandas DataFrame of two columns; its index is ignored."""
    import pyarrow as pa

    columns = []
    for axis, name in enumerate(frame.columns):
        try:
            columns.append(pa.chunked_array([pa.Array.from_pandas(frame.iloc[:, axis])]))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            reason = str(error).splitlines()[0]
            hint = "cast the column to int64 or to strings"
            raise BadInput(f"column '{name}' is neither: {reason}", "DataFrame", hint=hint) from None
    table = pa.table(columns, names=[str(name) for name in frame.columns])
    return to_edges(table_block(table, "DataFrame", strings, any_ids))


def from_networkx(graph, strings=None, any_ids=False):
    """The edges of a networkx DiGraph or MultiDiGraph; nodes without edges are dropped."""
    if not graph.is_directed():
        hint = "pass graph.to_directed() for both directions of every edge"
        raise BadInput("the graph is undirected", type(graph).__name__, hint=hint)
    return from_pairs(graph.edges(), strings, any_ids)


def from_pairs(source, strings=None, any_ids=False):
    """The edges of an iterable of pairs, all of integers or all of strings. Makes a list of it: some 0.3 us an edge."""
    pairs = list(source)
    kinds = _vertex_kinds(pairs)
    if len(kinds) > 1 or not kinds <= {int, str} or (strings is False and kinds == {str}):
        _blame_pairs(pairs, strings)
    if kinds == {str} or strings:
        return _from_names(pairs)
    try:
        found = np.array(pairs, np.int64).reshape(-1, 2) if pairs else no_pairs()
    except OverflowError:
        _blame_pairs(pairs, strings)
    return from_array(found, None, any_ids) if len(found) else Edges(found)


def _from_names(pairs):
    import pyarrow as pa

    columns = ([str(pair[axis]) for pair in pairs] for axis in (0, 1))
    return intern(*(pa.chunked_array([pa.array(column, pa.string())]) for column in columns))


def _vertex_kinds(pairs):
    """The kinds of vertices, int or str for numpy's own too; {None} when some item is no pair."""
    if any(issubclass(kind, (str, bytes, dict, set, frozenset)) for kind in set(map(type, pairs))):
        return {None}
    try:
        if set(map(len, pairs)) - {2}:
            return {None}
        return set(map(_kind, set(map(type, chain.from_iterable(pairs)))))
    except TypeError:
        return {None}


def _kind(of):
    if issubclass(of, (int, np.integer)) and of is not bool:
        return int
    return str if issubclass(of, str) else of


def _blame_pairs(pairs, strings):
    """Raises ``BadInput`` for the first item that is no pair, or no pair of what the first vertex is."""
    expected = None
    for position, pair in enumerate(pairs):
        place = f"edges[{position}]"
        kinds = _vertex_kinds([pair])
        if kinds == {None}:
            raise BadInput(f"{pair!r} is no pair", place, hint="every edge is (source, target)")
        for vertex in pair:
            kind = _kind(type(vertex))
            if kind not in (int, str):
                what = type(vertex).__name__
                raise BadInput(f"{vertex!r} is a {what}", place, hint="vertices are integers or strings")
            if strings is False and kind is str:
                raise BadInput(f"{vertex!r} is a string, but strings=False", place, hint="pass integers")
            expected = expected or kind
            if kind is not expected and not strings:
                hint = "pass strings=True to read all as names"
                raise BadInput(f"{vertex!r} is {_named(kind)}, those before are {_named(expected)}s", place, hint=hint)
            if kind is int and (fault := id_fault(int(vertex), any_ids=True)):
                raise BadInput(fault[0], place, hint=fault[1])


def _named(kind):
    return "a string" if kind is str else "an integer"


def _raise_odd(array, where, any_ids):
    row, column = where
    message, hint = id_fault(int(array[row, column]), any_ids)
    raise BadInput(message, f"edges[{row}]", hint=hint)


def _is_instance(module, name):
    """A test for a class of a module that may not be installed: what is not imported has no instances."""
    return lambda source: module in sys.modules and isinstance(source, getattr(sys.modules[module], name))


READERS = (
    (is_spark_frame, from_spark),
    (_is_instance("numpy", "ndarray"), from_array),
    (_is_instance("pyarrow", "Table"), from_table),
    (_is_instance("pandas", "DataFrame"), from_frame),
    (_is_instance("networkx", "Graph"), from_networkx),
    (lambda source: hasattr(source, "__iter__") and not isinstance(source, (bytes, dict)), from_pairs),
)
