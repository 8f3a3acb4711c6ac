"""The hosts that Spark's tasks run on, by the master's address."""


def on_this_host(master: str) -> bool:
    """True if all tasks run in the driver's process tree, and see its disk.

    >>> [on_this_host(master) for master in ("local", "local[2,4]", "local-cluster[2,1,1024]", "spark://host:7077")]
    [True, True, False, False]
    """
    return master == "local" or master.startswith("local[")
