"""A body's steps, run so that they can be stopped after any batch and taken up again where they stopped.

Roll-over (*Load-balancing Parallel Relational Algebra*, 3.3): a join that has made more than a threshold of tuples ships what
it has, and an inner iteration goes on with the rest. Each step that is under way has a `Frame`: the batch it works on, and from
where on. Frames are written as a run, so what is left of an evaluation takes a batch for each of its steps on disk, not in
memory. The tuples that a body begins with are scanned again, which costs nothing.
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
    """The first step of a segment: the bindings that a shuffle has brought here, as columns of a block."""

    block: Block
    names: tuple[str, ...]

    def __call__(self, batch: Batch, context: Context, begin=START):
        yield from scan_blocks([self.block], tuple(enumerate(self.names)), {}, begin, context.most, context.exact)


RESUMING = (
    Arrived,
    ArrivedLists,
    Join,
    Propose,
    Generate,
)  # steps that begin anywhere; the others but Multiway make one batch of one


@dataclass
class Frame:
    """A step at work on a batch: it goes on at `begin`; the last batch that it has made began at `last`."""

    step: int
    batch: Batch | None
    begin: tuple[int, int, int] = START
    last: tuple[int, int, int] = START
    making: object = field(default=None, repr=False)


class BatchIterator:
    """An iterator over the batches that come out of the last step, depth first. Between two of them `frames` is all that is
    left to do. `joined` counts the pairs of tuples that have met."""

    def __init__(self, steps: list, context: Context, frames: list[Frame] | None = None):
        self.steps, self.context, self.joined = steps, context, 0
        self.frames = frames if frames is not None else [Frame(0, unit())]
        if len(self.frames) > 1 and self.frames[1].batch is None:
            self.frames[1].batch = self._made(self.frames[0])

    def __iter__(self):
        while self.frames:
            frame = self.frames[-1]
            if frame.step == len(self.steps):
                yield self.frames.pop().batch
                continue
            made = self._made(frame)
            if made is None or not isinstance(self.steps[frame.step], (*RESUMING, Multiway)):
                self.frames.pop()
            if made is not None and made.size:
                self.joined += made.joined
                self.frames.append(Frame(frame.step + 1, made))

    def _made(self, frame: Frame) -> Batch | None:
        step = self.steps[frame.step]
        resumes = isinstance(step, RESUMING)
        if frame.making is None:
            given = (frame.begin,) if resumes else ()
            frame.making = iter(step(frame.batch, self.context, *given))
        made = next(frame.making, None)
        if made is not None and resumes:
            frame.last, frame.begin = frame.begin, made.at
        return made

    @property
    def divisible(self) -> bool:
        """Whether it may stop here: not while a multiway join is at work, whose order depends on what a process has at hand."""
        return not any(frame.making is not None and isinstance(self.steps[frame.step], Multiway) for frame in self.frames)

    def store(self, path: str) -> Run:
        """Write the frames. What a first step has made of one binding is not written, it is made again."""
        kept = [(frame.step, frame.batch, frame.begin) for frame in self.frames]
        first, second = (*self.frames, None)[:2]
        if second and second.step == first.step + 1 and first.batch.size == 1 and isinstance(self.steps[first.step], RESUMING):
            kept[:2] = [(first.step, first.batch, first.last), (second.step, None, second.begin)]
        data = pickle.dumps(kept, protocol=5)
        return write_run(path, np.frombuffer(data + bytes(-len(data) % 8), np.uint64))


def restored(run: Run) -> list[Frame]:
    """The frames that `BatchIterator.store` has written."""
    return [Frame(*kept) for kept in pickle.loads(run.open().tobytes())]
