"""Roll-over: run the steps of a body such that they can stop after any batch and continue there later.

A join that has made more than a threshold of tuples sends them, and an inner iteration continues with the rest (*Load-balancing
Parallel Relational Algebra*, 3.2). Each active step has a `Frame`: its input batch, and the position from which it continues.
Frames are written to a file, so the remaining work of an evaluation takes disk space for one batch of each step, and no memory.
The tuples with which a body begins are scanned again, which costs nothing.
"""

import pickle
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
    block.
    """

    block: Block
    names: tuple[str, ...]

    def __call__(self, batch: Batch, context: Context, begin=START):
        yield from scan_blocks([self.block], tuple(enumerate(self.names)), {}, begin, context.most, context.exact)


# Steps that can continue from a position; every other step makes one batch from one batch.
RESUMING = Arrived, ArrivedLists, Join, Propose, Generate, Multiway


@dataclass
class Frame:
    """An active step: its number, its input batch, the position `begin` where it continues, and `last`, where its last output
    batch began. making: the iterator of its outputs.
    """

    step: int
    batch: Batch | None
    begin: tuple[int, ...] = START
    last: tuple[int, ...] = START
    making: object = field(default=None, repr=False)


class BatchIterator:
    """The batches that the last step makes, depth first. Between two batches, `frames` describes all remaining work: if
    `more()`, the last frame has the next batch. `joined` counts the pairs of tuples compared for the batches taken.
    """

    def __init__(self, steps: list, context: Context, frames: list[Frame] | None = None):
        self.steps, self.context, self.joined = steps, context, 0
        self.pending = 0  # pairs compared for the last batch of a resuming step, until the batch is used
        self.frames = frames if frames is not None else [Frame(0, unit())]
        if len(self.frames) > 1 and self.frames[1].batch is None:
            self.frames[1].batch = self._made(self.frames[0])

    def more(self) -> bool:
        """Make the next batch of the last step, unless it is there. False if there is none: then no work is left."""
        while self.frames and self.frames[-1].step < len(self.steps):
            frame = self.frames[-1]
            made = self._made(frame)
            if made is None or not isinstance(self.steps[frame.step], RESUMING):
                self.frames.pop()
            else:
                self._settle()
            if made is not None and made.size:
                self.pending += made.joined
                self.frames.append(Frame(frame.step + 1, made))
        return bool(self.frames)

    def take(self) -> Batch:
        """Return the next batch; there must be `more()`."""
        self._settle()
        return self.frames.pop().batch

    def _settle(self) -> None:
        """Count the pairs compared for a batch that is used, so that it is not made again."""
        self.joined, self.pending = self.joined + self.pending, 0

    def _made(self, frame: Frame) -> Batch | None:
        """Return the next output batch of a frame's step, or None if it has no more, and note where it continues."""
        step = self.steps[frame.step]
        resumes = isinstance(step, RESUMING)
        if frame.making is None:
            arguments = (frame.begin,) if resumes else ()
            frame.making = iter(step(frame.batch, self.context, *arguments))
        made = next(frame.making, None)
        if made is not None and resumes:
            frame.last, frame.begin = frame.begin, made.at
        return made

    def store(self, path: str) -> Run:
        """Write the frames to a file. A batch that has not been taken is not written, as the step that it came from makes it
        again; nor is the first step's output if it came from a single binding."""
        if len(self.frames) > 1 and self.frames[-1].step == len(self.steps):
            self.frames.pop()
            self.frames[-1].begin = self.frames[-1].last
        saved = [(frame.step, frame.batch, frame.begin) for frame in self.frames]
        first, second = (*self.frames, None)[:2]
        if second and second.step == first.step + 1 and first.batch.size == 1 and isinstance(self.steps[first.step], RESUMING):
            saved[:2] = [(first.step, first.batch, first.last), (second.step, None, second.begin)]
        data = pickle.dumps(saved, protocol=5)
        return write_run(path, np.frombuffer(data + bytes(-len(data) % 8), np.uint64))


def restored(run: Run) -> list[Frame]:
    """Return the frames that `BatchIterator.store` has written."""
    return [Frame(*saved) for saved in pickle.loads(run.open().tobytes())]
