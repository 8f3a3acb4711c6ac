"""Transactions, batches, symbols and records as the arrays of a record in the log, and back."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.blocks.changes import Change
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.text.arrow_arrays import strings_of
from semi_naive.ra.text.strings import places_of, string_arrays
from semi_naive.session.durability.registrations import Arrays
from semi_naive.session.facts import PendingChange, block_of, columns_of


@dataclass(frozen=True)
class LoggedTransaction:
    """A transaction in the log. time: None in logs of earlier versions; net: the changes of explicit facts, by relation."""

    epoch: int
    time: float | None
    net: dict[str, Change]


def changed_relations(arrays: Arrays) -> list[str]:
    """Return the names of the relations whose changes a record of the log contains."""
    return [key.removeprefix("+") for key in arrays if key.startswith("+")]


def net_changes(logged: list[Arrays], given: dict[str, Table]) -> dict[str, Change]:
    """Return the net changes of explicit facts by all transactions of a log. given: the facts at the snapshot."""
    pending = {}
    for arrays in logged:
        for name in changed_relations(arrays):
            if name not in pending:
                pending[name] = PendingChange(given[name])
            pending[name].add(insert=False, columns=arrays[f"-{name}"])
            pending[name].add(insert=True, columns=arrays[f"+{name}"])
    changes = {name: relation_pending.net()[0] for name, relation_pending in pending.items()}
    return {name: change for name, change in changes.items() if change.size}


def transaction_as_arrays(transaction: LoggedTransaction) -> Arrays:
    """Return the arrays of a transaction's record in the log: the time; inserted (+) and deleted (-) facts as columns."""
    arrays = {} if transaction.time is None else {"time": np.array([transaction.time])}
    for name, change in transaction.net.items():
        arrays[f"+{name}"], arrays[f"-{name}"] = columns_of(change.born), columns_of(change.lost)
    return arrays


def transaction_of_record(epoch: int, arrays: Arrays, names: Collection[str]) -> LoggedTransaction:
    """Return the transaction of a record in the log, with the changes of the relations `names` only."""
    changed = [name for name in names if f"+{name}" in arrays]
    net = {name: Change(block_of(arrays[f"+{name}"]), block_of(arrays[f"-{name}"])) for name in changed}
    return LoggedTransaction(epoch, arrays["time"][0].item() if "time" in arrays else None, net)


def batch_of_record(arrays: Arrays) -> tuple[str, int]:
    """Return the (stream, number) of the batch that a record of the log has committed."""
    return arrays["query"].tobytes().decode(), int(arrays["batch"][0])


def lexicon_as_arrays(name: str, dense: int, content) -> Arrays:
    """Return new symbols or records as arrays of the log, the inverse of `lexicons_of_record`. dense: the number of dense ids;
    content: records, or Arrow strings."""
    arrays = {f"{name}.dense": np.array([dense])}
    if isinstance(content, np.ndarray):
        return arrays | {f"{name}.rows": content}
    text_bytes, begins, ends = places_of(content)
    return arrays | {f"{name}.bytes": text_bytes[begins[0] : ends[-1]], f"{name}.lengths": ends - begins}


def lexicons_of_record(arrays: Arrays) -> Iterator[tuple[str, int, list[Any]]]:
    """Yield (name, number of dense ids, pieces) of the symbols and records in a record of the log."""
    for key in (key for key in arrays if key.endswith(".dense")):
        name, dense = key.removesuffix(".dense"), int(arrays[key][0])
        if f"{name}.rows" in arrays:
            yield name, dense, [arrays[f"{name}.rows"]]
        else:
            ends = np.cumsum(arrays[f"{name}.lengths"])
            strings = string_arrays(arrays[f"{name}.bytes"], ends - arrays[f"{name}.lengths"], ends)
            yield name, dense, list(strings) or [strings_of([])]  # at least one piece, which may be empty
