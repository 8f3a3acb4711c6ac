"""The registered rules and the named subscriptions as stored in the directory of a session.

Each snapshot contains them. The log contains later events, each in a record of its own; the record of a transaction also
contains its changes for each named subscription. So a subscriber that uses the name in another process gets all changes that
are not acknowledged.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semi_naive.ra.blocks.changes import Change
from semi_naive.session.facts import block_of, columns_of
from semi_naive.session.registered.subscriptions import History

EVENT, CHANGES = "!", "~"  # the array of an event, and the prefix of arrays of changes kept for a name

Arrays = dict[str, np.ndarray]


@dataclass
class Registrations:
    """The registered rules and named subscriptions of a session. rules: by relation, the arguments of "register" in
    `apply_event`, of which earlier versions had the text only. names: the named subscriptions. declarations: the texts of the
    relations that were added to the session, by name; a snapshot is written when one is."""

    rules: dict[str, tuple] = field(default_factory=dict)
    names: dict[str, History] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)

    def apply_event(self, what: str, name: str, *more: Any) -> None:
        """Apply an event: one of ("register", relation, text, share), ("unregister", relation), ("subscribe", name, relation,
        key, epoch), ("ack", name, epoch), ("lapse", name), ("end", name)."""
        match what:
            case "register":
                self.rules[name] = more
            case "unregister":
                self.rules.pop(name, None)
            case "subscribe":
                relation, key, epoch = more
                self.names[name] = History(relation, tuple(key), epoch)
            case "ack" if name in self.names:
                self.names[name].ack(more[0])
            case "lapse" if name in self.names:
                self.names[name].lapse()
            case "end":
                self.names.pop(name, None)

    def apply_record(self, epoch: int, arrays: Arrays) -> bool:
        """Apply a record of the log. Return True if it is an event, and False if it is a transaction."""
        if is_event(arrays):
            self.apply_event(*json.loads(arrays[EVENT].tobytes()))
            return True
        for name, history in self.names.items():
            if f"{CHANGES}+{name}" in arrays:
                born, lost = (block_of(arrays[f"{CHANGES}{sign}{name}"]) for sign in "+-")
                history.add(epoch, Change(born, lost))
        return False


def event_as_arrays(*event: Any) -> Arrays:
    """Return the arrays that represent an event (`Registrations.apply_event`) in the log."""
    return {EVENT: np.frombuffer(json.dumps(event).encode(), np.uint8)}


def is_event(arrays: Arrays) -> bool:
    """True if a record of the log is an event, False if it is a transaction."""
    return EVENT in arrays


def changes_as_arrays(changes: dict[str, Change]) -> Arrays:
    """Return the arrays that represent the changes for named subscriptions, by name, in the record of a transaction."""
    return {
        f"{CHANGES}{sign}{name}": columns_of(block)
        for name, change in changes.items()
        for sign, block in (("+", change.born), ("-", change.lost))
    }
