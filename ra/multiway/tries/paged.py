"""Paged tries: trie arrays in files that are read a page at a time, and that are written from a stream of sorted tuples.

A mapped file counts as memory of its process for as long as pages of it are resident, so it would not respect a bound. Here a
search reads at most one page of a level, as the first value of each page is kept in memory. So are the least and the greatest
child of each block of positions, by which boxes narrow the ranges of variables.
"""

import io
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.domain import check_tuples
from semi_naive.ra.storage.external_sort import read_array
from semi_naive.ra.storage.missing import DAMAGED, RunMissing
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Store

PAGE_BYTES = 4096
FENCE = PAGE_BYTES // 4  # values of a page; the first of each is kept in memory: 0.1 % of the file
ENDS_BLOCK = 32  # positions of a level whose children's least and greatest value is kept in memory
CACHED_PAGES = 16  # pages of an array that are kept
TUPLES = 1 << 16  # tuples that are written at a time
FEW = 1 << 14  # children of some positions that are read at once; of more, only the first and the last of each position


@dataclass
class Reads:
    """Counts of reads of files."""

    probes: int = 0  # pages requested, cached ones included
    pages: int = 0  # pages read from files
    bytes: int = 0  # bytes of slices read


@dataclass(eq=False)
class PagedArray:
    """An array in a part of a file."""

    file: io.FileIO
    dtype: np.dtype
    begin: int  # the byte at which it begins
    size: int
    reads: Reads
    kept: OrderedDict[int, np.ndarray] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return self.size

    def page(self, number: int) -> np.ndarray:
        """Return a page, from the cache or the file."""
        self.reads.probes += 1
        if number in self.kept:
            self.kept.move_to_end(number)
            return self.kept[number]
        per_page = PAGE_BYTES // self.dtype.itemsize
        page = self._read(number * per_page, min((number + 1) * per_page, self.size))
        self.reads.pages += 1
        self.kept[number] = page
        if len(self.kept) > CACHED_PAGES:
            self.kept.popitem(last=False)
        return page

    def __getitem__(self, at: int) -> int:
        number, inside = divmod(at, PAGE_BYTES // self.dtype.itemsize)
        return int(self.page(number)[inside])

    def read_few(self, begin: int, end: int) -> np.ndarray:
        """Return a copy of a short range, past the cache."""
        pages = 1 + (end - begin) * self.dtype.itemsize // PAGE_BYTES
        self.reads.probes += pages
        self.reads.pages += pages
        return self._read(begin, end)

    def read(self, begin: int, end: int) -> np.ndarray:
        """Return a copy of a range, for a slice."""
        self.reads.bytes += (end - begin) * self.dtype.itemsize
        return self._read(begin, end)

    def _read(self, begin: int, end: int) -> np.ndarray:
        try:
            return read_array(self.file, self.dtype, self.begin + begin * self.dtype.itemsize, end - begin)
        except (EOFError, OSError):
            raise RunMissing(self.file.name, what=DAMAGED) from None


@dataclass(eq=False)
class PagedTrie:
    """A trie array (see `trie`) in a file. fences: of each level the first value of each page; ends: of each level but the
    last the least and the greatest child of each block of positions."""

    values: tuple[PagedArray, ...]
    index: tuple[PagedArray, ...]
    directory: PagedArray
    fences: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]
    widths: tuple[int, ...]  # the size of the largest sibling range of each level
    bytes: int  # of the file

    def widest(self, level: int) -> int:
        return self.widths[level]

    def position(self, level: int, begin: int, end: int, target: int) -> int:
        """Return the position of the first value of a sibling range, [begin, end), that is not below an id. Reads a page."""
        first = -(-begin // FENCE)
        page = first + int(self.fences[level][first : -(-end // FENCE)].searchsorted(np.int32(target))) - 1
        low, high = max(begin, page * FENCE), min(end, (page + 1) * FENCE)
        if low >= high:
            return low
        inside = self.values[level].page(page)[low - page * FENCE : high - page * FENCE]
        return low + int(inside.searchsorted(np.int32(target)))

    def span(self, level: int, begin: int, end: int) -> tuple[int, int]:
        """Return (least, greatest + 1) of the children of positions [begin, end) of a level; (0, 0) if there are none. Reads
        the children at positions of blocks that are not whole."""
        if end <= begin:
            return 0, 0
        first, last = -(-begin // ENDS_BLOCK), end // ENDS_BLOCK
        rest = [(begin, end)] if first > last else [(begin, first * ENDS_BLOCK), (last * ENDS_BLOCK, end)]
        found = [self.ends[level][:, first:last], *(self._ends(level, *each) for each in rest if each[0] < each[1])]
        return min(int(ends[0].min()) for ends in found if ends.size), max(
            int(ends[1].max()) for ends in found if ends.size
        ) + 1

    def _ends(self, level: int, begin: int, end: int) -> np.ndarray:
        """Return the first and the last children of some positions, (2, n)."""
        bounds, children = self.index[level].read_few(begin, end + 1), self.values[level + 1]
        low, high = int(bounds[0]), int(bounds[-1])
        if high - low > FEW:
            return np.array([[children[at] for at in bounds[:-1].tolist()], [children[at - 1] for at in bounds[1:].tolist()]])
        some, bounds = children.read_few(low, high), bounds - low
        return np.stack([some[bounds[:-1]], some[bounds[1:] - 1]])


@dataclass(frozen=True, eq=False)
class StoredTrie:
    """A handle of a paged trie. Picklable: the fences and ends go with it."""

    arrays: ArrayFile
    fences: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]
    widths: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of the file."""
        return sum(np.dtype(dtype).itemsize * length for dtype, length in self.arrays.sections)

    @property
    def kept_bytes(self) -> int:
        """The bytes of memory of the opened trie, without slices."""
        pages = len(self.arrays.sections) * CACHED_PAGES * PAGE_BYTES
        return sum(array.nbytes for array in (*self.fences, *self.ends)) + min(pages, self.bytes)

    def open(self, reads: Reads | None = None) -> PagedTrie:
        """Open the trie. Raises RunMissing if its file is damaged; the first to open it in this process reads all of it."""
        file, reads = self.arrays.readable(), reads or Reads()
        directory, *levels = (
            PagedArray(file, np.dtype(dtype), begin, length, reads)
            for begin, (dtype, length) in zip(self.arrays.begins(), self.arrays.sections, strict=True)
        )
        return PagedTrie(tuple(levels[::2]), tuple(levels[1::2]), directory, self.fences, self.ends, self.widths, self.bytes)


def write_trie(pieces: Iterable[tuple[np.ndarray, ...]], arity: int, size: int, store: Store, name: str, sc=None) -> StoredTrie:
    """Write a trie of tuples of ids below `size`, given as columns in ascending pieces without duplicates. Takes memory for a
    piece. sc: a context whose hosts all get the file."""
    writer = _Writer(arity, size, store, name)
    for columns in pieces:
        for begin in range(0, len(columns[0]), TUPLES):
            writer.add([np.asarray(column[begin : begin + TUPLES], np.int32) for column in columns])
    return writer.finish(sc)


class _Writer:
    """Writes the arrays of a trie to a file each, and then all of them to one."""

    def __init__(self, arity: int, size: int, store: Store, name: str):
        self.arity, self.size, self.store, self.name = arity, size, store, name
        kinds = [kind for _ in range(arity) for kind in (np.int32, np.int64)][:-1]
        self.sections = [
            NumberFile.create(store.path(f"{name}.{number}"), kind) for number, kind in enumerate([np.int32, *kinds])
        ]
        self.directory, self.values, self.index = self.sections[0], self.sections[1::2], self.sections[2::2]
        self.fences: list[list[np.ndarray]] = [[] for _ in range(arity)]
        self.ends = [_Ends() for _ in range(arity - 1)]
        self.widths = [0] * arity
        self.last: list[int] | None = None  # the last tuple
        self.opened = [0] * (arity - 1)  # the begin of the last sibling range of each level but the first
        self.listed = 0  # ids whose entry in the directory is written

    def add(self, columns: list[np.ndarray]) -> None:
        """Add some tuples, which follow the ones before."""
        starts = self._starts(columns)
        entries = [
            self._add_index(level, starts[level], starts[level + 1], columns[level + 1]) for level in range(self.arity - 1)
        ]
        first_ids = columns[0][starts[0]]
        self._add_directory(first_ids, entries[0] if entries else self.values[0].size + np.arange(first_ids.size))
        for level, column in enumerate(columns):
            self._add_values(level, column[starts[level]])
        self.last = [int(column[-1]) for column in columns]

    def _starts(self, columns: list[np.ndarray]) -> list[np.ndarray]:
        """Return for each level the rows at which a value begins."""
        begins, starts = np.zeros(len(columns[0]), bool), []
        begins[0] = self.last is None
        for level, column in enumerate(columns):
            begins[1:] |= column[1:] != column[:-1]
            begins[0] |= self.last is not None and self.last[level] != column[0]
            starts.append(np.flatnonzero(begins))
        return starts

    def _add_values(self, level: int, values: np.ndarray) -> None:
        section = self.values[level]
        self.fences[level].append(values[-section.size % FENCE :: FENCE].copy())
        section.append(values)

    def _add_index(self, level: int, starts: np.ndarray, below: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Add the entries of the index of a level, and return them. starts: the rows at which its values begin; below: those of
        their children; child: the column of the children."""
        entries = self.values[level + 1].size + np.searchsorted(below, starts)
        sizes = np.diff(np.concatenate([[self.opened[level]], entries]))
        self.widths[level + 1] = max(self.widths[level + 1], int(sizes.max(initial=0)))
        before = child[starts - 1]
        if self.last is not None and starts.size and starts[0] == 0:
            before[0] = self.last[level + 1]
        self.ends[level].add(child[starts], before)
        self.opened[level] = int(entries[-1]) if entries.size else self.opened[level]
        self.index[level].append(entries)
        return entries

    def _add_directory(self, ids: np.ndarray, entries: np.ndarray) -> None:
        """Add the entries of all ids up to the last of some: the number of children of all values below."""
        gaps = np.diff(np.concatenate([[self.listed - 1], ids]))
        ends = np.cumsum(gaps)
        begin = 0
        while begin < len(ids):  # a piece at a time, as ids may be far apart
            done = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, done + TUPLES, "right")), begin + 1)
            if end == begin + 1:
                self._fill(int(gaps[begin]), int(entries[begin]))
            else:
                self.directory.append(np.repeat(entries[begin:end], gaps[begin:end]))
            begin = end
        if len(ids):
            self.listed = int(ids[-1]) + 1

    def _fill(self, count: int, entry: int) -> None:
        """Add an entry to the directory many times."""
        while count > 0:
            self.directory.append(np.full(min(count, TUPLES), entry, np.int32))
            count -= TUPLES

    def finish(self, sc=None) -> StoredTrie:
        """Complete the arrays, and write them to one file."""
        check_tuples(self.values[-1].size)
        self._fill(self.size + 1 - self.listed, self.values[min(1, self.arity - 1)].size)
        for level, index in enumerate(self.index):
            below = self.values[level + 1].size
            if index.size:
                self.widths[level + 1] = max(self.widths[level + 1], below - self.opened[level])
                self.ends[level].finish(self.last[level + 1])
            index.append(np.array([below]))
        self.widths[0] = self.values[0].size
        arrays = ArrayFile.assemble(self.sections, self.store, f"{self.name}.trie", sc)
        fences = tuple(np.concatenate([np.empty(0, np.int32), *own]) for own in self.fences)
        return StoredTrie(arrays, fences, tuple(ends.array() for ends in self.ends), tuple(self.widths))


class _Ends:
    """Folds the first and last children of positions to a least and a greatest one of each block."""

    def __init__(self):
        self.firsts: list[np.ndarray] = []
        self.lasts: list[np.ndarray] = []
        self.rest = np.empty((2, 0), np.int32)  # of the last block, which is not complete
        self.first = np.empty(0, np.int32)  # that of the position whose last child is not known

    def add(self, firsts: np.ndarray, before: np.ndarray) -> None:
        """Add the first children of some positions, and the last ones of the positions before them."""
        if not firsts.size:
            return
        all_firsts = np.concatenate([self.first, firsts])
        lasts = before if self.first.size else before[1:]
        self._fold(np.stack([all_firsts[:-1], lasts]))
        self.first = all_firsts[-1:]

    def finish(self, last: int) -> None:
        """Add the last child of the last position."""
        self._fold(np.stack([self.first, np.array([last], np.int32)]))
        if self.rest.size:
            self._keep(self.rest[:, None, :])

    def _fold(self, pairs: np.ndarray) -> None:
        pairs = np.concatenate([self.rest, pairs], axis=1)
        whole = pairs.shape[1] // ENDS_BLOCK * ENDS_BLOCK
        self._keep(pairs[:, :whole].reshape(2, -1, ENDS_BLOCK))
        self.rest = pairs[:, whole:]

    def _keep(self, blocks: np.ndarray) -> None:
        if blocks.shape[1]:
            self.firsts.append(blocks[0].min(axis=1))
            self.lasts.append(blocks[1].max(axis=1))

    def array(self) -> np.ndarray:
        """Return (2, blocks): the least and the greatest child of each block."""
        nothing = np.empty(0, np.int32)
        return np.stack([np.concatenate([nothing, *self.firsts]), np.concatenate([nothing, *self.lasts])])
