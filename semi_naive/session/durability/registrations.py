"""What a directory has of registered rules and of subscriptions with a name, besides relations.

It is in each snapshot, and what becomes of it later is in the log: an event in a record of its own, and with each transaction
the changes that it has for a name. So who subscribes by that name in another process has all that has not been acknowledged.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semi_naive.ra.blocks.changes import Change
from semi_naive.session.facts import block_of, columns_of
from semi_naive.session.registered.subscriptions import History

EVENT, CHANGES = "!", "~"  # what the arrays of a record are called that have an event, or changes kept for a name

Arrays = dict[str, np.ndarray]


@dataclass
class Registrations:
    """`rules`: the text of registered rules by relation; `names`: what is kept for each name."""

    rules: dict[str, str] = field(default_factory=dict)
    names: dict[str, History] = field(default_factory=dict)

    def happened(self, what: str, name: str, *more: Any) -> None:
        """One of ("register", relation, text), ("unregister", relation), ("subscribe", name, relation, key, epoch),
        ("ack", name, epoch), ("lapse", name), ("end", name)."""
        match what:
            case "register":
                self.rules[name] = more[0]
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

    def take_up(self, epoch: int, arrays: Arrays) -> bool:
        """What a record of the log says of them; whether it is an event, and no transaction."""
        if EVENT in arrays:
            self.happened(*json.loads(arrays[EVENT].tobytes()))
            return True
        for name, history in self.names.items():
            if f"{CHANGES}+{name}" in arrays:
                born, lost = (block_of(arrays[f"{CHANGES}{sign}{name}"]) for sign in "+-")
                history.add(epoch, Change(born, lost))
        return False


def event(*what: Any) -> Arrays:
    """An event as the log has it."""
    return {EVENT: np.frombuffer(json.dumps(what).encode(), np.uint8)}


def changes_as_arrays(kept: dict[str, Change]) -> Arrays:
    """The changes of a transaction that are kept for names, as the log has them."""
    return {
        f"{CHANGES}{sign}{name}": columns_of(block)
        for name, change in kept.items()
        for sign, block in (("+", change.born), ("-", change.lost))
    }
