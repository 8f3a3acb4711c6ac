"""The base class of relations on the partitions. A run without any only imports this module to distinguish them from tables."""

from typing import Any


class Spread:
    """A relation whose tuples are not in the driver's memory. Subclasses are in `on_partitions`, for runs that need them."""

    partitioned: Any = None  # the relation with indexes on the partitions, if it has any

    def close(self) -> None:
        """Release the resources of this relation."""
