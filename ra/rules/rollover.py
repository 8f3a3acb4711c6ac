"""Roll-over: run the steps of a body so that they can stop after any batch and continue there later.

A join that has made more than a threshold of tuples sends them, and an inner iteration continues with the rest (*Load-balancing
Parallel Relational Algebra*, 3.2). Each active step has a `Frame`: its input batch, and the position from which it continues.
Frames are written to a file, so the remaining work of an evaluation takes disk space for one batch of each step, and no memory.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.by_variable.bigjoin import Propose
from semi_naive.ra.by_variable.listed import ArrivedLists
from semi_naive.ra.by_variable.multiway import Multiway
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.steps import START, Context, Generate, Join, scan_blocks
from semi_naive.ra.storage.runs import Run, write_run


@dataclass
class Arrived:
    """The first step of a segment: it yields the bindings that a shuffle brought to this partition, stored as columns of a
    block."""

    block: Block
    names: tuple[str, ...]

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] = START):
        yield from scan_blocks([self.block], tuple(enumerate(self.names)), {}, resume_at, context.batch_size, context.exact)


# Steps that can continue from a position; every other step makes one batch from one batch.
RESUMABLE = Arrived, ArrivedLists, Join, Propose, Generate, Multiway


@dataclass
class Frame:
    """An active step and its remaining work.

    step: its number; len(steps) if `batch` is an output of the last step that has not been taken.
    batch: its input batch; None in a stored frame if the first step is to make it again.
    resume_at: the position from which it continues; before_last: the position at which its last output batch began.
    outputs: the iterator of its output batches, once it runs.
    """

    step: int
    batch: Batch | None
    resume_at: tuple[int, ...] = START
    before_last: tuple[int, ...] = START
    outputs: Iterator[Batch] | None = field(default=None, repr=False)


class BatchIterator:
    """An iterator of the batches that the last step makes, depth first, which can be stored between two batches.

    frames: all remaining work, one frame for each active step; after `more()`, the last frame has the next batch.
    joined: the number of pairs of tuples compared for the batches that later steps have used, or that have been taken.
    """

    def __init__(self, steps: list, context: Context, frames: list[Frame] | None = None):
        """frames: the remaining work that `store` has written; by default all of it, from the empty binding on."""
        self.steps, self.context, self.joined = steps, context, 0
        self._uncounted = 0  # pairs compared for a batch that has not been used
        self.frames = frames if frames is not None else [Frame(0, unit())]
        if len(self.frames) > 1 and self.frames[1].batch is None:  # `store` has left it out
            self.frames[1].batch = self._next_output(self.frames[0])

    def more(self) -> bool:
        """Run steps until the last one has made its next batch, unless that is waiting. Return False if there is none: no work
        remains. The frame of a step that cannot be resumed is removed with its only batch."""
        while self.frames and self.frames[-1].step < len(self.steps):
            frame = self.frames[-1]
            output = self._next_output(frame)
            if output is None or not isinstance(self.steps[frame.step], RESUMABLE):
                self.frames.pop()
            else:  # the step has used its input batch, which will not be made again
                self._count_pairs()
            if output is not None and output.size:
                self._uncounted += output.joined
                self.frames.append(Frame(frame.step + 1, output))
        return bool(self.frames)

    def take(self) -> Batch:
        """Return the next batch, which `more()` has made."""
        self._count_pairs()
        batch = self.frames.pop().batch
        assert batch is not None
        return batch

    def _count_pairs(self) -> None:
        """Count the pairs compared for a batch. Called when it is used: it will not be made again."""
        self.joined, self._uncounted = self.joined + self._uncounted, 0

    def _next_output(self, frame: Frame) -> Batch | None:
        """Return the next output batch of a frame's step, or None if it has no more, and note where it continues."""
        step = self.steps[frame.step]
        resumable = isinstance(step, RESUMABLE)
        if frame.outputs is None:
            frame.outputs = iter(step(frame.batch, self.context, *([frame.resume_at] if resumable else [])))
        output = next(frame.outputs, None)
        if output is not None and resumable:
            assert output.resume_at is not None
            frame.before_last, frame.resume_at = frame.resume_at, output.resume_at
        return output

    def store(self, path: str) -> Run:
        """Write the frames to a file; the iterator is not used afterwards. A batch that has not been taken is not written, as
        the step that it came from makes it again. Neither is the first step's output, if its input is a single binding:
        scanning it again costs nothing."""
        if len(self.frames) > 1 and self.frames[-1].step == len(self.steps):
            self.frames.pop()
            self.frames[-1].resume_at = self.frames[-1].before_last
        saved = [(frame.step, frame.batch, frame.resume_at) for frame in self.frames]
        first, second = self.frames[0], self.frames[1] if len(self.frames) > 1 else None
        one_binding = first.batch is not None and first.batch.size == 1
        if second and second.step == first.step + 1 and one_binding and isinstance(self.steps[first.step], RESUMABLE):
            saved[:2] = [(first.step, first.batch, first.before_last), (second.step, None, second.resume_at)]
        data = pickle.dumps(saved, protocol=5)  # a run has whole words; pickle ignores the zeros after the end
        return write_run(path, np.frombuffer(data + bytes(-len(data) % 8), np.uint64))


def restored(run: Run) -> list[Frame]:
    """Return the frames that `BatchIterator.store` has written to a run."""
    return [Frame(*saved) for saved in pickle.loads(run.open().tobytes())]
