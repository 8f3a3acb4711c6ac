"""What an alternating fixpoint carries from one round to the next: see `semi_naive.language.wellfounded`."""

from collections.abc import Iterable

from semi_naive.planning.alternating import Loop
from semi_naive.ra.rules.table import Table, snapshot
from semi_naive.running.database import Database


def begin(loop: Loop, database: Database) -> None:
    """Before the first round: true are the facts."""
    for known, true in loop.pairs:
        _carry(known, true, database)


def settled(loop: Loop, database: Database) -> bool:
    """Whether a round has added nothing to what is true; if it has, the next one knows it."""
    more = any(database.count(true) > database.count(known) for known, true in loop.pairs)
    for known, true in loop.pairs if more else ():
        _carry(known, true, database)
    return not more


def undefined(loops: Iterable[Loop], database: Database) -> list[str]:
    """What to say of relations that the program writes and that have undefined tuples, which it does not write."""
    program = database.program
    written = {directive.relation for directive in program.directives if directive.kind in ("output", "printsize")}
    told = []
    for _, name in (pair for loop in loops for pair in loop.pairs):
        count = database.count(f"{name}@possible") - database.count(name)
        if count and name in written and f"{name}.undefined" not in written:
            told.append(f"{name} has {count:,} undefined tuples, which are not written: .output {name}.undefined writes them")
    return told


def _carry(known: str, true: str, database: Database) -> None:
    database.on_partitions.pop(known, None)
    if true in database.on_partitions:
        database.on_partitions[known] = database.on_partitions[true]
        database.tables[known] = Table(len(database.program.relations[known].attributes))
        return
    database.tables[known] = snapshot(database.tables[true])
    database.tables[known].settle()
    database.forget_sizes(known)
