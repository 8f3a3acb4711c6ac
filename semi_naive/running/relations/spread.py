"""The base of relations on the partitions, by which a run that has none tells them from tables."""

from typing import Any


class Spread:
    """A relation whose tuples are not in the driver's memory. Its kinds are in `on_partitions`, which most runs do not load."""

    partitioned: Any = None  # the relation with indexes on the partitions, if it has any

    def close(self) -> None:
        """Release what only this relation needs."""
