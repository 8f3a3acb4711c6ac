"""Paged tries: trie arrays in files that are read a page at a time, and that are written from a stream of sorted tuples.

A mapped file counts as memory of its process for as long as pages of it are resident, so it would not respect a bound. Here a
search reads at most one page of a level, as the first value of each page is kept in memory. So are the least and the greatest
child of each block of positions, by which boxes narrow the ranges of variables.
"""

import io
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.domain import check_tuples
from semi_naive.ra.storage.external_sort import read_array
from semi_naive.ra.storage.missing import DAMAGED, RunMissing
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Store

PAGE_BYTES = 4096
VALUES_PER_PAGE = PAGE_BYTES // 4  # values of a page; the first of each is kept in memory: 0.1 % of the file
ENDS_BLOCK = 32  # positions of a level whose children's least and greatest value is kept in memory
CACHED_PAGES = 16  # pages of an array that are kept
WRITTEN_TUPLES = 1 << 16  # tuples that are written at a time
MAX_READ_CHILDREN = 1 << 14  # children of some positions that are read at once; of more, only the ends of each position


@dataclass
class Reads:
    """Counts of reads of files."""

    probes: int = 0  # pages requested, cached ones included
    pages: int = 0  # pages read from files
    bytes: int = 0  # bytes of slices read
    verified: int = 0  # bytes of files read to compare their checksums


@dataclass(eq=False)
class PagedArray:
    """An array in a part of a file."""

    file: io.FileIO
    dtype: np.dtype
    begin: int  # the byte at which it begins
    size: int
    reads: Reads
    cache: OrderedDict[int, np.ndarray] = field(default_factory=OrderedDict)  # pages by number, the last used last

    def __len__(self) -> int:
        return self.size

    def page(self, number: int) -> np.ndarray:
        """Return a page, from the cache or the file."""
        self.reads.probes += 1
        if number in self.cache:
            self.cache.move_to_end(number)
            return self.cache[number]
        per_page = PAGE_BYTES // self.dtype.itemsize
        page = self._read(number * per_page, min((number + 1) * per_page, self.size))
        self.reads.pages += 1
        self.cache[number] = page
        if len(self.cache) > CACHED_PAGES:
            self.cache.popitem(last=False)
        return page

    def __getitem__(self, position: int) -> int:
        number, place = divmod(position, PAGE_BYTES // self.dtype.itemsize)
        return int(self.page(number)[place])

    def read_few(self, begin: int, end: int) -> np.ndarray:
        """Return a copy of a short range, without the cache. It counts as probes."""
        pages = 1 + (end - begin) * self.dtype.itemsize // PAGE_BYTES
        self.reads.probes += pages
        self.reads.pages += pages
        return self._read(begin, end)

    def read(self, begin: int, end: int) -> np.ndarray:
        """Return a copy of a range, for a slice. It counts as bytes of slices."""
        self.reads.bytes += (end - begin) * self.dtype.itemsize
        return self._read(begin, end)

    def _read(self, begin: int, end: int) -> np.ndarray:
        try:
            return read_array(self.file, self.dtype, self.begin + begin * self.dtype.itemsize, end - begin)
        except (EOFError, OSError):
            raise RunMissing(self.file.name, what=DAMAGED) from None


@dataclass(eq=False)
class PagedTrie:
    """A trie array (see `trie`) in a file. fences: for each level, the first value of each page. ends: for each level but the
    last, the least and the greatest child of each block of positions, (2, blocks)."""

    values: tuple[PagedArray, ...]
    index: tuple[PagedArray, ...]
    directory: PagedArray
    fences: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]
    widths: tuple[int, ...]  # the size of the largest sibling range of each level
    bytes: int  # of the file
    known: dict[tuple, tuple[int, ...]] = field(default_factory=dict)  # positions that probes have found (`slices`)

    def widest(self, level: int) -> int:
        return self.widths[level]

    def position(self, level: int, begin: int, end: int, target: int) -> int:
        """Return the position of the first value of a sibling range, [begin, end), that is not below an id. Reads a page."""
        first, last = -(-begin // VALUES_PER_PAGE), -(-end // VALUES_PER_PAGE)  # the pages that begin in the range
        page = first + int(self.fences[level][first:last].searchsorted(np.int32(target))) - 1
        page_begin = page * VALUES_PER_PAGE
        low, high = max(begin, page_begin), min(end, page_begin + VALUES_PER_PAGE)
        if low >= high:  # the range is empty, or begins with a page whose first value is not below the id
            return low
        values = self.values[level].page(page)[low - page_begin : high - page_begin]
        return low + int(values.searchsorted(np.int32(target)))

    def span(self, level: int, begin: int, end: int) -> tuple[int, int]:
        """Return (least, greatest + 1) of the children of positions [begin, end) of a level; (0, 0) if there are none. Reads
        the children at positions of blocks that are partly in the range."""
        if end <= begin:
            return 0, 0
        first, last = -(-begin // ENDS_BLOCK), end // ENDS_BLOCK  # the blocks that are in the range
        rest = [(begin, end)] if first > last else [(begin, first * ENDS_BLOCK), (last * ENDS_BLOCK, end)]
        parts = [self.ends[level][:, first:last], *(self._read_ends(level, low, high) for low, high in rest if low < high)]
        least, greatest = (np.concatenate([ends[row] for ends in parts]) for row in (0, 1))
        return int(least.min()), int(greatest.max()) + 1

    def _read_ends(self, level: int, begin: int, end: int) -> np.ndarray:
        """Return the first and the last child of each of the positions [begin, end), (2, n). Each has a child."""
        bounds, children = self.index[level].read_few(begin, end + 1), self.values[level + 1]
        low, high = int(bounds[0]), int(bounds[-1])
        if high - low > MAX_READ_CHILDREN:
            firsts = [children[position] for position in bounds[:-1].tolist()]
            return np.array([firsts, [children[position - 1] for position in bounds[1:].tolist()]])
        values, bounds = children.read_few(low, high), bounds - low
        return np.stack([values[bounds[:-1]], values[bounds[1:] - 1]])


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
    def memory_bytes(self) -> int:
        """The bytes of memory that the opened trie takes, without slices."""
        pages = len(self.arrays.sections) * CACHED_PAGES * PAGE_BYTES
        return sum(array.nbytes for array in (*self.fences, *self.ends)) + min(pages, self.bytes)

    def open(self, reads: Reads | None = None) -> PagedTrie:
        """Open the trie. Raises RunMissing if its file is damaged: the first call in a process verifies all of it."""
        reads = reads or Reads()
        reads.verified += 0 if self.arrays.file.verified else self.bytes
        file = self.arrays.readable()
        directory, *levels = (
            PagedArray(file, np.dtype(dtype), begin, length, reads)
            for begin, (dtype, length) in zip(self.arrays.begins(), self.arrays.sections, strict=True)
        )
        return PagedTrie(tuple(levels[::2]), tuple(levels[1::2]), directory, self.fences, self.ends, self.widths, self.bytes)


def write_trie(pieces: Iterable[Sequence[np.ndarray]], arity: int, size: int, store: Store, name: str, sc=None) -> StoredTrie:
    """Write a trie of tuples of ids below `size`, given as columns in ascending pieces without duplicates. Takes memory for a
    piece. sc: a context whose hosts all get the file."""
    writer = _Writer(arity, size, store, name)
    for columns in pieces:
        for begin in range(0, len(columns[0]), WRITTEN_TUPLES):
            writer.add([np.asarray(column[begin : begin + WRITTEN_TUPLES], np.int32) for column in columns])
    return writer.finish(sc)


class _Writer:
    """Writes the arrays of a trie to a file each, and then all of them to one."""

    def __init__(self, arity: int, size: int, store: Store, name: str):
        self.arity, self.size, self.store, self.name = arity, size, store, name
        kinds = [kind for _ in range(arity) for kind in (np.int32, np.int64)][:-1]  # the last level has no index
        self.sections = [
            NumberFile.create(store.path(f"{name}.{number}"), kind) for number, kind in enumerate([np.int32, *kinds])
        ]
        self.directory, self.values, self.index = self.sections[0], self.sections[1::2], self.sections[2::2]
        self.fences: list[list[np.ndarray]] = [[] for _ in range(arity)]
        self.ends = [(_Extremes(np.minimum), _Extremes(np.maximum)) for _ in range(arity - 1)]
        self.widths = [0] * arity
        self.last: list[int] | None = None  # the last tuple
        self.range_begins = [0] * (arity - 1)  # the begin of the last sibling range of each level but the first
        self.directory_ids = 0  # the number of ids whose entry in the directory has been written

    def add(self, columns: list[np.ndarray]) -> None:
        """Add tuples that follow those added before."""
        starts = self._value_starts(columns)
        entries = [
            self._add_index(level, starts[level], starts[level + 1], columns[level + 1]) for level in range(self.arity - 1)
        ]
        first_ids = columns[0][starts[0]]
        self._add_directory(first_ids, entries[0] if entries else self.values[0].size + np.arange(first_ids.size))
        for level, column in enumerate(columns):
            self._add_values(level, column[starts[level]])
        self.last = [int(column[-1]) for column in columns]

    def _value_starts(self, columns: list[np.ndarray]) -> list[np.ndarray]:
        """Return for each level the rows at which a new value of the level begins."""
        begins, starts = np.zeros(len(columns[0]), bool), []
        begins[0] = self.last is None
        for level, column in enumerate(columns):
            begins[1:] |= column[1:] != column[:-1]
            begins[0] |= self.last is not None and self.last[level] != column[0]
            starts.append(np.flatnonzero(begins))
        return starts

    def _add_values(self, level: int, values: np.ndarray) -> None:
        """Add values of a level, and the fences among them."""
        section = self.values[level]
        next_page = -section.size % VALUES_PER_PAGE  # the position among `values` at which a page begins
        self.fences[level].append(values[next_page::VALUES_PER_PAGE].copy())
        section.append(values)

    def _add_index(self, level: int, starts: np.ndarray, below: np.ndarray, child: np.ndarray) -> np.ndarray:
        """Add the entries of the index of a level for new rows, and return them. starts, below: the rows at which its values
        and their children begin; child: the column of the children."""
        entries = self.values[level + 1].size + np.searchsorted(below, starts)
        sizes = np.diff(np.concatenate([[self.range_begins[level]], entries]))
        self.widths[level + 1] = max(self.widths[level + 1], int(sizes.max(initial=0)))
        last_children = child[(starts[1:] if self.last is None else starts) - 1]  # of the positions before
        if self.last is not None and starts.size and starts[0] == 0:
            last_children[0] = self.last[level + 1]  # of the tuple before this piece; above, child[-1] was read
        least, greatest = self.ends[level]
        least.add(child[starts])
        greatest.add(last_children)
        self.range_begins[level] = int(entries[-1]) if entries.size else self.range_begins[level]
        self.index[level].append(entries)
        return entries

    def _add_directory(self, ids: np.ndarray, entries: np.ndarray) -> None:
        """Add the entries of the directory for all ids up to the last of `ids`. entries: that of each of `ids`, the number of
        children of all values below it; ids between two of them have the entry of the next."""
        gaps = np.diff(np.concatenate([[self.directory_ids - 1], ids]))
        ends = np.cumsum(gaps)
        begin = 0
        while begin < len(ids):  # a piece at a time, as ids may be far apart
            done = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, done + WRITTEN_TUPLES, "right")), begin + 1)
            if end == begin + 1:
                self._repeat_entry(int(gaps[begin]), int(entries[begin]))
            else:
                self.directory.append(np.repeat(entries[begin:end], gaps[begin:end]))
            begin = end
        if len(ids):
            self.directory_ids = int(ids[-1]) + 1

    def _repeat_entry(self, count: int, entry: int) -> None:
        """Add an entry to the directory many times."""
        while count > 0:
            self.directory.append(np.full(min(count, WRITTEN_TUPLES), entry, np.int32))
            count -= WRITTEN_TUPLES

    def finish(self, sc=None) -> StoredTrie:
        """Complete the arrays, and write them to one file."""
        check_tuples(self.values[-1].size)
        counted = self.values[1] if self.arity > 1 else self.values[0]  # what the directory counts: children, or values
        self._repeat_entry(self.size + 1 - self.directory_ids, counted.size)
        for level, index in enumerate(self.index):
            below = self.values[level + 1].size
            if self.last is not None:
                self.widths[level + 1] = max(self.widths[level + 1], below - self.range_begins[level])
                self.ends[level][1].add(np.array([self.last[level + 1]], np.int32))
            index.append(np.array([below]))
        self.widths[0] = self.values[0].size
        arrays = ArrayFile.assemble(self.sections, self.store, f"{self.name}.trie", sc)
        fences = tuple(np.concatenate([np.empty(0, np.int32), *own]) for own in self.fences)
        return StoredTrie(
            arrays, fences, tuple(np.stack([each.all() for each in ends]) for ends in self.ends), tuple(self.widths)
        )


class _Extremes:
    """The least or the greatest (`ufunc`) of each block of ENDS_BLOCK numbers, which are added in order. results: those of
    complete blocks, in pieces; rest: the numbers of the incomplete block."""

    def __init__(self, ufunc: np.ufunc):
        self.ufunc, self.results, self.rest = ufunc, [np.empty(0, np.int32)], np.empty(0, np.int32)

    def add(self, numbers: np.ndarray) -> None:
        """Add some numbers."""
        numbers = np.concatenate([self.rest, numbers])
        whole = numbers.size // ENDS_BLOCK * ENDS_BLOCK
        self.results.append(self.ufunc.reduce(numbers[:whole].reshape(-1, ENDS_BLOCK), axis=1))
        self.rest = numbers[whole:]

    def all(self) -> np.ndarray:
        """Return the results for all blocks, that of the last, incomplete one included."""
        return np.concatenate([*self.results, [self.ufunc.reduce(self.rest)] if self.rest.size else []]).astype(np.int32)
