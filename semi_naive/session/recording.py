"""A folder with a file for each epoch that changes a relation: its columns and `diff`, as parquet or text.

The subscription of a recording has a name, so the changes of an epoch are kept until its file is there. With a directory each
epoch has its file exactly once, also if the process ends in between: a file that is written again is the same.
"""

import os
from typing import Any

from semi_naive.io.files import atomic_files
from semi_naive.session.contents import Changes
from semi_naive.session.registered.subscriptions import History, Subscription, without_parameters

EXTENSIONS = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz")


def record(session: Any, relation: str, folder: str, extension: str, parameters: dict[str, Any]) -> Subscription:
    """See `Session.record`."""
    if extension not in EXTENSIONS:
        raise ValueError(f"the extension is {extension!r}: expected {', '.join(EXTENSIONS)}")
    os.makedirs(folder, exist_ok=True)
    name, subscribers = f"record {os.path.abspath(folder)}/{relation}", session.registry.subscribers

    def write(*_) -> None:
        """Write the files of all epochs that have none, in their order. If one fails, the next change tries again."""
        history: History = subscribers.histories[name]
        declared = without_parameters(session.registry.relation(relation), len(history.key))
        for epoch, change in history.after():
            with atomic_files():
                Changes(session, declared, change).write(os.path.join(folder, f"{relation}-{epoch:010}{extension}"))
            subscribers.acknowledge(name, epoch)

    subscription = session.subscribe(relation, write, name=name, **parameters)
    if subscribers.histories[name].waiting:  # of a process that has ended
        write()
    return subscription
