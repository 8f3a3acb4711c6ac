"""Reports of a job's tasks to the driver.

A task sends its report to the last task of the job, which returns it. So a repeated task is counted once. Shuffled records
arrive in any order, and the receiver sorts them.
"""

from dataclasses import dataclass, field


@dataclass
class Report:
    """The report of a task. phase: the kind of task, such as "join" or "insert"; facts: further values, by the phase."""

    phase: str
    partition: int
    received: int = 0  # tuples
    sent: int = 0  # tuples
    bytes: int = 0
    messages: int = 0  # the parcels: one for each partition that gets tuples of a block
    seconds: float = 0.0
    clock: float = 0.0  # the host's time when the tuples had been sent or, for an insert, had arrived
    facts: dict = field(default_factory=dict)

    def count(self, parcel) -> None:
        """Add a sent parcel to `sent`, `bytes` and `messages`."""
        self.sent, self.bytes, self.messages = self.sent + parcel.tuples, self.bytes + len(parcel.data), self.messages + 1


def reports(records, partition: int) -> list[Report]:
    """Return the reports that earlier tasks of this partition sent, sorted by phase."""
    mine = [r for r in records if isinstance(r, Report) and r.partition == partition]
    return sorted(mine, key=lambda report: report.phase)
