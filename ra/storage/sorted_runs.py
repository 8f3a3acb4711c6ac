"""Divide sorted runs, disjoint sets of tuples, into pieces of about equal size that threads can merge independently.

A run is words (lanes, n), or chunks (`ra.chunks`) of words of one lane, which are merged 64 words at a time and expanded a
piece at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.chunks import SIX, size_of, union, words_of
from semi_naive.ra.lanes import merge_all

SAMPLES_PER_PIECE = 16  # sampled words by which the bounds of pieces are chosen


@dataclass
class WordRun:
    """A run of words (lanes, n). Its positions are indexes of words."""

    words: np.ndarray

    @property
    def size(self) -> int:
        return self.words.shape[1]

    @property
    def end(self) -> int:
        """The end of the positions."""
        return self.size

    def sample(self, step: int) -> np.ndarray:
        """Return every `step`-th word, as words (lanes, n)."""
        return self.words[:, ::step]

    def places(self, splitters: np.ndarray) -> np.ndarray:
        """Return, for each word in `splitters` (lanes, m), the first position whose word is not below it."""
        lanes = self.words.shape[0]
        if lanes == 1:
            return np.searchsorted(self.words[0], splitters[0])
        masks, within = np.full(lanes, ~np.uint64(0)), np.ones(splitters.shape[1], np.bool_)
        return kernels.ranges_rows(np.ascontiguousarray(self.words), splitters, masks, within)[0]


@dataclass
class ChunkRun:
    """A run of chunks. Its positions are indexes of chunks."""

    keys: np.ndarray
    masks: np.ndarray

    @cached_property
    def size(self) -> int:
        return size_of(self.masks)

    @property
    def end(self) -> int:
        return self.keys.size

    def sample(self, step: int) -> np.ndarray:
        """Return the first word of some chunks, about one in `step` words, as words (1, n)."""
        return (self.keys[:: max(1, step * self.keys.size // max(1, self.size))] << SIX)[None]

    def places(self, splitters: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.keys, splitters[0] >> SIX)


SortedRun = WordRun | ChunkRun


def cuts(runs: Sequence[SortedRun], size: int) -> np.ndarray:
    """Return the bounds of pieces of about `size` tuples: positions (pieces + 1, runs) in each run. No piece is empty.

    >>> cuts([WordRun(np.array([[1, 4, 9]], "u8")), WordRun(np.array([[2, 3]], "u8"))], 2).tolist()
    [[0, 0], [1, 1], [2, 2], [3, 2]]
    """
    if not runs:
        return np.zeros((1, 0), np.int64)
    step = max(1, size // SAMPLES_PER_PIECE)
    samples = np.concatenate([run.sample(step) for run in runs], axis=1)
    samples = samples[:, np.lexsort(samples[::-1])]
    samples_per_piece = size // step
    splitters = np.ascontiguousarray(samples[:, samples_per_piece::samples_per_piece])
    if any(isinstance(run, ChunkRun) for run in runs):
        splitters = splitters >> SIX << SIX  # pieces begin between chunks
    bounds = np.zeros((splitters.shape[1] + 2, len(runs)), np.int64)
    for number, run in enumerate(runs):
        bounds[1:-1, number] = run.places(splitters)
        bounds[-1, number] = run.end
    return bounds[np.diff(bounds.sum(axis=1), prepend=-1) > 0]  # equal rows would be the bounds of an empty piece


def merge_sorted_runs(runs: Sequence[SortedRun], begins: np.ndarray, ends: np.ndarray, lanes: int) -> np.ndarray:
    """Return the union (lanes, n) of a piece of each run: run i from position begins[i] to ends[i].

    >>> runs = [ChunkRun(np.array([0, 1], "u8"), np.array([5, 1], "u8")), WordRun(np.array([[1, 70]], "u8"))]
    >>> merge_sorted_runs(runs, np.array([0, 0]), np.array([2, 1]), 1).tolist()
    [[0, 1, 2, 64]]
    """
    pieces, chunks = [], None
    for run, begin, end in zip(runs, begins.tolist(), ends.tolist(), strict=True):
        if begin == end:
            continue
        if isinstance(run, WordRun):
            pieces.append(run.words[:, begin:end])
        else:
            piece = run.keys[begin:end], run.masks[begin:end]
            chunks = union(*chunks, *piece) if chunks else piece
    if chunks:
        keys, masks = chunks
        pieces.append(words_of(keys, masks, size_of(masks))[None])
    return merge_all(sorted(pieces, key=lambda words: words.shape[1]), lanes)  # which merges neighbours in pairs
