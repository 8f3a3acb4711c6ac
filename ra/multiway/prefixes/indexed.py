"""Relations and the indexes made of them so far: what one query asked for is there for the next."""

from semi_naive.ra.multiway.prefixes.indexes import built


class Indexed:
    """Relations {name: columns} in this process, with their indexes."""

    partitions = 1

    def __init__(self, relations):
        self.relations, self.indexes = relations, {}

    def want(self, keys) -> None:
        """Costs a sort of each index that is missing, 30 ns a tuple."""
        self.indexes |= built([key for key in keys if key not in self.indexes], self.relations)

    def close(self) -> None:
        """Remove what is in files."""
