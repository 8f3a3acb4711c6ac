"""A block: distinct tuples of one relation, packed into words and sorted by its columns in some order, so that it can be
searched by a prefix of them.
"""

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from semi_naive.ra import words as single_words
from semi_naive.ra.blocks import kernels, sampling_kernels
from semi_naive.ra.blocks.kernels import FEW, Columns, as_one_array, kernel_ready
from semi_naive.ra.blocks.packings import WORD_BITS, bounds_of, fits, mark_within_bounds, pack_columns, roomy
from semi_naive.ra.cached import ProcessLocal, cached
from semi_naive.ra.chunks import Chunks, chunked, field_of, minus, minus_words, size_of, union, words_at, words_of
from semi_naive.ra.joins.unions import ROW, cells_of
from semi_naive.ra.lanes import among, merge_all, sort_unique
from semi_naive.ra.packing import Bounds, Packing, widen

SPARSE_READ = 8  # if at most one word in 8 is read, these words are computed from the chunks instead of all words
TUPLES_PER_SEARCH = 512  # tuples indexed in a directory in the time of one search by bisection
TUPLES_PER_ENTRY = 4  # tuples indexed in a directory in the time of one more directory entry
BOUNDED_ROWS = 1 << 15  # tuples whose columns are unpacked at a time: they stay in a processor's cache
MIN_TUPLES_PER_CHUNK = 2  # on average; with fewer, words take less memory than chunks

Directory = tuple[np.uint64, int, np.ndarray]  # (base, coarse, starts): see `kernels.directory`


@dataclass
class Block:
    """Sorted distinct tuples: words (lanes, n) under a packing. Column number i of the block is field i of the packing."""

    packing: Packing
    words: np.ndarray
    _directories: dict[int, Directory] = field(default_factory=dict, repr=False)  # by `rest`: see `directory`
    searched_keys = 0  # the number of keys searched for by bisection, without a directory, so far

    @classmethod
    def of(cls, columns: Columns, size: int, packing: Packing | None = None) -> "Block":
        """Make a block of columns (size,), in any order of rows, duplicates allowed. Takes 20 ns a tuple of one word."""
        columns = columns if (array := as_one_array(columns, size)) is None else array  # one kernel call packs an array
        packing = packing or roomy(bounds_of(columns))
        return cls(packing, sort_unique(pack_columns(columns, packing, size), over=True))  # the packed words are new

    @property
    def size(self) -> int:
        return self.words.shape[1]

    @property
    def has_words(self) -> bool:
        """True unless the words are still to be computed, in a subclass that does so on first use."""
        return "words" in vars(self)

    def words_once(self) -> np.ndarray:
        """Return the words (lanes, n) for a single use. A subclass that computes them does not cache them."""
        return self.words

    @cached
    def chunks(self) -> Chunks:
        """The words as chunks (`ra.chunks`), for tuples of one word. Cached: 16 bytes a chunk."""
        return chunked(np.ascontiguousarray(self.words[0]))

    @cached
    def rows(self) -> tuple[Directory, int]:
        """(The directory of the chunks by the first column, `cells`), for joins of pairs packed as first << 32 | second."""
        return directory_of(self.chunks[0], ROW), self.cells

    @cached
    def cells(self) -> int:
        """The number of bitmap words that a join of pairs needs for this block's rows (`unions.cells_of`)."""
        return cells_of(self.chunks[0])

    @cached
    def bounds(self) -> Bounds:
        """The least and the greatest value of each column. 2 ns a value, once; BOUNDED_ROWS tuples at a time are unpacked."""
        if not self.has_words or not self.size:  # `picked` would compute the words of chunks, and keep them
            return bounds_of(self.columns())
        pieces = (self.picked(slice(begin, begin + BOUNDED_ROWS)) for begin in range(0, self.size, BOUNDED_ROWS))
        return reduce(widen, (bounds_of(piece.columns()) for piece in pieces))

    @cached
    def described(self) -> ProcessLocal:
        """A cache of the block's descriptions for the tuple-at-a-time machine (`ra.tuple_at_a_time.described`), by the number
        of searched columns."""
        return ProcessLocal()

    @property
    def arity(self) -> int:
        return self.packing.arity

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays computed so far: words (also if mapped from a file), chunks and directories."""
        computed = vars(self)
        arrays = list(computed.get("chunks", ()))
        if "present" in computed:
            bitmap, *_ = computed["present"]
            arrays.append(bitmap)
        if self.has_words:
            arrays.append(computed["words"])
        directories = list(self._directories.values())  # copied at once: another thread may add one
        if "rows" in computed:
            directories.append(computed["rows"][0])
        return sum(array.nbytes for array in arrays) + sum(starts.nbytes for _, _, starts in directories)

    def column(self, number: int, positions: np.ndarray | None = None) -> np.ndarray:
        """Return column `number`: the values (n,) of all tuples, or (k,) of the tuples at `positions` (k,)."""
        layout_field = self.packing.fields[number]
        size = self.size if positions is None else positions.size
        if not layout_field.bits:  # all tuples have the same value, which takes no place in the words
            return np.full(size, layout_field.low, np.int64)
        if positions is None:
            column = np.empty(size, np.int64)
            kernels.unpack_field(self.words[layout_field.lane], *layout_field.extraction, column)
            return column
        return kernels.field_at(self.words[layout_field.lane], positions, *layout_field.extraction)

    def columns(self) -> list[np.ndarray]:
        """Return all columns, in the block's order."""
        if self.size <= FEW and self.has_words:  # one call for all columns takes less time
            return list(kernels.unpack(np.ascontiguousarray(self.words), self.packing.layout))
        return [self.column(place) for place in range(self.arity)]

    def repacked(self, packing: Packing) -> "Block":
        """Return the same tuples, in the same order, under a packing that has room for them."""
        return self if packing == self.packing else Block(packing, self._words_as(packing, self.packing.layout))

    def _words_as(self, packing: Packing, fields: np.ndarray) -> np.ndarray:
        """Return words (lanes, n) under another packing. fields: for each of its columns, the row of this packing's layout
        whose values it gets."""
        return kernels.repack(np.ascontiguousarray(self.words_once()), fields, packing.layout, packing.lanes)

    def reordered(self, order: tuple[int, ...], packing: Packing | None = None) -> "Block":
        """Return the tuples sorted in another order: column order[i] of this block is column i of the result."""
        if order == tuple(range(self.arity)):
            return self
        packing = packing or self.packing.ordered(order)
        return Block(packing, sort_unique(self._words_as(packing, self.packing.layout[list(order)]), over=True))

    def picked(self, rows: np.ndarray | slice) -> "Block":
        """Return the tuples in a slice, which may share memory, or a copy of those at ascending positions (k,) or of those that
        a mask (n,) selects."""
        return Block(self.packing, np.ascontiguousarray(self.words[:, rows]))

    def without(self, other: "Block") -> "Block":
        """Return this block without the tuples of a block of the same packing."""
        return other.taken_from(self) if self.size and other.size else self

    def taken_from(self, block: "Block") -> "Block":
        """Return another block of the same packing without the tuples of this one. `without` calls it, so that a subclass
        chooses how its own tuples are subtracted."""
        if isinstance(block, Chunked):
            both = isinstance(self, Chunked)
            rest = minus(*block.chunks, *self.chunks) if both else minus_words(*block.chunks, self.words[0])
            return Chunked(self.packing, rest).compact()
        if isinstance(self, Chunked):
            return Chunked(self.packing, minus(*chunked(block.words[0]), *self.chunks)).compact()
        if self.packing.lanes == 1:
            rest = single_words.drop(block.words[0].copy(), self.words[0])  # it overwrites what it is given
            return Block(self.packing, (rest.copy() if 2 * rest.size < block.size else rest)[None])  # a view keeps all memory
        return block.picked(~among(block.words, self.words))

    # -- searching

    def ranges(self, keys: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for each of `size` keys the range [low, high) of the tuples that begin with it, as two arrays (size,). keys: a
        column for each of the block's first columns."""
        if not keys:
            return np.zeros(size, np.int64), np.full(size, self.size, np.int64)
        if not self.size:
            return np.zeros(size, np.int64), np.zeros(size, np.int64)
        within, prefix = mark_within_bounds(keys, self.packing, size), pack_columns(keys, self.packing, size)
        last = self.packing.fields[len(keys) - 1]
        if last.lane == 0:  # also if there are more lanes: the first one is in ascending order
            # The bits of a word that are not of the key. If the key columns have no bits, these are 64, and a shift by 64 is
            # undefined: `ranges_rows` compares with masks instead.
            rest = last.shift
            if rest < 64 and rest not in self._directories and self._directory_costs_more(rest, size):
                return self._ranges_of_few(prefix[0], rest, within)
            if rest < 64:
                return kernels.ranges(self.words[0], rest, *self.directory(rest), prefix[0] >> np.uint64(rest), within)
        return kernels.ranges_rows(np.ascontiguousarray(self.words), prefix, self._masks(len(keys)), within)

    def narrowed(self, number: int, lows, highs, least, greatest) -> tuple[np.ndarray, np.ndarray]:
        """Narrow ranges [low, high) of tuples to those whose column `number` is between least and greatest, both included; each
        argument is (m,). The tuples of a range agree in all columns before. Takes 0.1 µs a range."""
        layout_field = self.packing.fields[number]
        words = np.ascontiguousarray(self.words[layout_field.lane])
        return kernels.narrow(words, *layout_field.extraction, lows, highs, kernel_ready(least), kernel_ready(greatest))

    def _directory_costs_more(self, rest: int, keys: int) -> bool:
        """True if making a directory takes longer than searching for all keys so far, including `keys` more, by bisection."""
        _, _, entries = _directory_layout(self.words[0], rest)
        return (self.searched_keys + keys) * TUPLES_PER_SEARCH < self.size + TUPLES_PER_ENTRY * entries

    def _ranges_of_few(self, prefixes: np.ndarray, rest: int, within: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranges [low, high) of keys by bisection, 1 µs a key. prefixes (m,): keys as words with 0 in the lowest
        `rest` bits; within (m,): False for keys that cannot occur, whose range is empty."""
        self.searched_keys += prefixes.size
        words, rest_mask = self.words[0], np.uint64((1 << rest) - 1)
        lows, highs = np.searchsorted(words, prefixes), np.searchsorted(words, prefixes | rest_mask, "right")
        return lows * within, highs * within  # the range [0, 0) for keys that cannot occur

    def _masks(self, keys: int) -> np.ndarray:
        """Return for each lane (lanes,) a mask of the bits of the first `keys` columns."""
        masks = [0] * self.packing.lanes
        for layout_field in self.packing.fields[:keys]:
            masks[layout_field.lane] |= ((1 << layout_field.bits) - 1) << layout_field.shift
        return np.array(masks, np.uint64)

    def directory(self, rest: int) -> Directory:
        """Return the directory of the words by all but the lowest `rest` bits. Computed on first use; takes 8 bytes a tuple, 16
        if each key has an entry."""
        if rest not in self._directories:
            self._directories[rest] = directory_of(self.words[0], rest)
        return self._directories[rest]

    @cached
    def present(self) -> tuple[np.ndarray, int, int, int]:
        """A filter of the values of the first column: (bitmap, least, shift, number of bits). A value may occur if bit (value
        - least) >> shift is set. Takes at most 8 bytes a tuple."""
        column = self.column(0)
        least, greatest = int(column[0]), int(column[-1])
        # So many values share a bit, 2 ** shift, that there are at most WORD_BITS bits a tuple.
        shift = max(0, (greatest - least).bit_length() - (WORD_BITS * self.size).bit_length())
        cells = ((greatest - least) >> shift) + 1
        return sampling_kernels.presence_bits(column, least, shift, cells), least, shift, cells

    @cached
    def greatest_second(self) -> int:
        """The greatest value of the second column, for pairs in words of two halves."""
        return int((self.words[0] & np.uint64((1 << 32) - 1)).max(initial=0))


class Chunked(Block):
    """A block stored as chunks (`ra.chunks`). Its words are computed on first use."""

    def __init__(self, packing: Packing, chunks: Chunks):
        self.packing, self.chunks, self._directories = packing, chunks, {}

    @cached
    def words(self) -> np.ndarray:
        return words_of(*self.chunks, self.size)[None]

    def words_once(self) -> np.ndarray:
        return self.words if self.has_words else words_of(*self.chunks, self.size)[None]

    @cached
    def size(self) -> int:
        return size_of(self.chunks[1])

    def column(self, number: int, positions: np.ndarray | None = None) -> np.ndarray:
        """Return one column. It is computed from the chunks unless the words are cached."""
        layout_field = self.packing.fields[number]
        if not layout_field.bits or self.has_words:
            return super().column(number, positions)
        if positions is not None:
            # as in a sample: only the words at these positions are computed
            is_sparse = positions.size * SPARSE_READ <= self.size and (positions[1:] >= positions[:-1]).all()
            if not is_sparse:
                return super().column(number, positions)
            words = words_at(*self.chunks, kernel_ready(positions))
            return Block(self.packing, words[None]).column(number)
        return field_of(*self.chunks, self.size, *layout_field.extraction)

    def compact(self) -> Block:
        """Return the block as words if these take less memory than the chunks."""
        return self if self.size >= MIN_TUPLES_PER_CHUNK * self.chunks[0].size else Block(self.packing, self.words_once())


def _directory_layout(words: np.ndarray, rest: int, most: int = 0) -> tuple[int, int, int]:
    """Return (base, coarse, number of entries) of a directory of sorted words: its entry i is for the words with
    ((word >> rest) - base) >> coarse == i. If an entry for each key would be more than two a word and 64, there are at most
    `most`, by default one a word: four times as many take 16 ns a word longer to make, and save up to 25 ns a search
    (2026-11)."""
    base, limit = int(words[0]) >> rest, most or words.size
    span = (int(words[-1]) >> rest) - base
    coarse = max(0, span.bit_length() - limit.bit_length() + 1) if span >= 2 * words.size + 64 else 0
    return base, coarse, (span >> coarse) + 1


def directory_of(words: np.ndarray, rest: int, most: int = 0) -> Directory:
    """Return the directory of sorted words by their keys, the bits above the lowest `rest`: for ranges of keys, the position of
    the first word. most: see `_directory_layout`."""
    base, coarse, entries = _directory_layout(words, rest, most)
    return np.uint64(base), coarse, kernels.directory(words, rest, np.uint64(base), coarse, entries)


def merge_blocks(blocks: list[Block], packing: Packing) -> Block:
    """Return the union of blocks, in a packing that holds their values."""
    blocks = [block.repacked(packing) for block in blocks if block.size]
    if len(blocks) == 1:
        return blocks[0]
    chunked_tuples = sum(block.size for block in blocks if isinstance(block, Chunked))
    if 2 * chunked_tuples > sum(block.size for block in blocks):  # most tuples are in chunks already, so all have one lane
        chunks = (block.chunks if isinstance(block, Chunked) else chunked(block.words[0]) for block in blocks)
        return Chunked(packing, reduce(lambda left, right: union(*left, *right), chunks)).compact()
    return Block(packing, merge_all([block.words_once() for block in blocks], packing.lanes))


def common_packing(blocks: list[Block], arity: int) -> Packing:
    """Return a packing that holds the values of all blocks: one of theirs if possible, else a roomy one. If one includes all
    others, no block is read."""
    packings = dict.fromkeys(block.packing for block in blocks if block.size)
    bounds = reduce(widen, [packing.bounds for packing in packings], ((0, 0),) * arity)
    if packings and bounds not in [packing.bounds for packing in packings]:
        bounds = reduce(widen, [block.bounds for block in blocks if block.size])
    return next((packing for packing in packings if fits(bounds, packing)), None) or roomy(bounds)


def union_of_blocks(blocks: list[Block], arity: int) -> Block:
    """Return the union of blocks of any packings as one block."""
    return merge_blocks(blocks, common_packing(blocks, arity))


def stacked(blocks: list[Block], block: Block, max_blocks: int = 6) -> list[Block]:
    """Return a list of blocks, largest first, with one more block. Neighbours are merged until there are at most `max_blocks`
    and each is at least twice as large as the next. So few blocks are searched, and each tuple is copied O(log n) times.

    >>> ones = [Block.of([np.arange(i, i + 2)], 2) for i in range(0, 8, 2)]
    >>> log = []
    >>> for one in ones: log = stacked(log, one)
    >>> [block.size for block in log]
    [8]
    """
    log = [*blocks, block] if block.size else list(blocks)
    merge_last(log, max_blocks)
    return log


def merge_last(log: list[Block], max_blocks: int) -> None:
    """Merge the last two blocks of a list, in place, until it is as `stacked` returns it. So each is freed once it is merged,
    if nothing else refers to it. The packing of the last block must hold the values of all."""
    while len(log) > 1 and (log[-2].size < 2 * log[-1].size or len(log) > max_blocks):
        log[-2:] = [merge_blocks(log[-2:], log[-1].packing)]


def group_begins(block: Block, keys: int) -> np.ndarray:
    """Return the positions (groups,) of the first tuples of groups. A group is the tuples that agree in the first `keys`
    columns.

    >>> group_begins(Block.of([np.array([1, 1, 2]), np.array([5, 6, 5])], 3), 1).tolist()
    [0, 2]
    """
    is_first = np.zeros(block.size, np.bool_)
    is_first[:1] = True
    last = block.packing.fields[keys - 1] if keys else None
    if last and last.lane == 0 and (shift := last.shift) < 64:  # the columns are the high bits of the first word
        prefixes = block.words[0] >> np.uint64(shift)
        is_first[1:] = prefixes[1:] != prefixes[:-1]
        return np.flatnonzero(is_first)
    for column in map(block.column, range(keys)):
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)
