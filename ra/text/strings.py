"""Kernels on strings of bytes: find the end of a field, hash a string, compare strings, look up a string in a table.

Bytes are read eight at a time, as a word. At the end of an array they are read one at a time, so no padding is needed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import Instruction, lowest_bit
from semi_naive.ra.words import JIT

ONES, HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
HIGH_HALF = np.uint64((1 << 64) - (1 << 32))
BITS = 62  # the bits of a string's hash
MAX_ARROW_BYTES = 1 << 30  # the limit of a pyarrow array of strings, whose offsets are below 2 GiB

_read, _bytes = types.Array(types.uint8, 1, "C", readonly=True), types.Array(types.uint8, 1, "C")
_i64 = types.Array(types.int64, 1, "C")
_mix = njit(inline="always")(mix)
_NONE, _ONE, _BYTE, _WORD = (np.uint64(number) for number in (0, 1, 8, 64))


def _word_at(typingctx, data, at):
    """Generate the instruction that loads eight bytes from a position."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(array.data, [args[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), codegen


# The word of eight bytes of an array from a position on, the first byte in the lowest bits. It need not be aligned.
word_at = Instruction(lambda data, at: np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little")), _word_at)


@njit(inline="always")
def last_bytes(data, at, end):
    """Return fewer than eight bytes, data[at:end], as a word, with zeros in the high bytes."""
    word, shift = _NONE, _NONE
    for i in range(at, end):
        word |= np.uint64(data[i]) << shift
        shift += _BYTE
    return word


@njit(inline="always")
def hash_of_bytes(data, begin, end):
    """Return the 62-bit hash of data[begin:end]."""
    word, at = np.uint64(end - begin), begin
    while at + 8 <= end:
        word = _mix(word) ^ word_at(data, at)
        at += 8
    if at < end and at + 8 <= data.size:
        part = word_at(data, at) & ((np.uint64(1) << np.uint64(8 * (end - at))) - np.uint64(1))
    else:
        part = last_bytes(data, at, end)
    return _mix(_mix(word) ^ part) >> (_WORD - np.uint64(BITS))


@njit(inline="always")
def same(data, begin, end, other, at):
    """True if data[begin:end] equals the bytes of another array from `at` on."""
    while begin + 8 <= end:
        if word_at(data, begin) != word_at(other, at):
            return False
        begin += 8
        at += 8
    while begin < end:
        if data[begin] != other[at]:
            return False
        begin += 1
        at += 1
    return True


@njit(inline="always")
def same_backwards(data, begin, end, at):
    """True if data[begin:end] equals the bytes of the same array from `at` on. The last bytes are compared first, as similar
    names often have equal beginnings."""
    other = at + (end - begin)
    while end - begin >= 8:
        end -= 8
        other -= 8
        if word_at(data, end) != word_at(data, other):
            return False
    while end > begin:
        end -= 1
        other -= 1
        if data[end] != data[other]:
            return False
    return True


@njit(inline="always")
def next_of(data, begin, end, one, two):
    """Return the position of the first byte from `begin` on that is `one` or `two`; `end` if there is none."""
    ones, twos, at = ONES * np.uint64(one), ONES * np.uint64(two), begin
    while at + 8 <= data.size and at < end:
        word = word_at(data, at)
        first, second = word ^ ones, word ^ twos
        # The bytes that are `one` or `two` are 0 in `first` or `second`. The lowest bit in `zeros` is surely of such a byte.
        zeros = ((first - ONES) & ~first | (second - ONES) & ~second) & HIGHS
        if zeros:
            return min(end, at + np.int64(lowest_bit(zeros) >> np.uint64(3)))
        at += 8
    while at < end and data[at] != one and data[at] != two:
        at += 1
    return min(at, end)


@njit(inline="always")
def look_up(data, begin, end, word, slots, content, begins, ends):
    """Return the (number, slot) of the string data[begin:end] with the hash `word` in a table; (-1, the free slot for it) if it
    is missing. String i of the table is content[begins[i] : ends[i]]; slots: its hash table, of `slot_entry`s, 0 if free."""
    mask, tag = np.uint64(slots.size - 1), word & HIGH_HALF
    slot = word & mask
    while slots[slot]:
        if slots[slot] & HIGH_HALF == tag:
            i = np.int64(slots[slot] & ~HIGH_HALF) - 1
            if ends[i] - begins[i] == end - begin and same(data, begin, end, content, begins[i]):
                return i, slot
        slot = (slot + _ONE) & mask
    return np.int64(-1), slot


@njit(inline="always")
def slot_entry(word, number):
    """Return the word in a string's slot: the upper half of the hash, and the number + 1 in the lower half."""
    return (word & HIGH_HALF) | np.uint64(number + 1)


@njit(inline="always")
def indexed(words, count, size):
    """Return the slots of a hash table of the strings 0 to count - 1. words: the strings' hashes; size: the number of slots, a
    power of two."""
    slots, mask = np.zeros(size, np.uint64), np.uint64(size - 1)
    for i in range(count):
        slot = words[i] & mask
        while slots[slot]:
            slot = (slot + _ONE) & mask
        slots[slot] = slot_entry(words[i], i)
    return slots


@njit(inline="always")
def with_doubled_room(array):
    """Return a copy with twice the size."""
    longer = np.empty(2 * array.size, array.dtype)
    longer[: array.size] = array
    return longer


@njit(inline="always")
def numbered(data, begin, end, count, begins, ends, words, slots):
    """Number the string data[begin:end] among the `count` distinct strings found so far in the same text. Return its number,
    and the table with it (see `look_up`): (number, count, begins, ends, words, slots). words: the hashes of the strings."""
    word = hash_of_bytes(data, begin, end)
    number, slot = look_up(data, begin, end, word, slots, data, begins, ends)
    if number < 0:
        number, count = count, count + 1
        begins[number], ends[number], words[number] = begin, end, word
        slots[slot] = slot_entry(word, number)
        if count == words.size:
            begins, ends, words = with_doubled_room(begins), with_doubled_room(ends), with_doubled_room(words)
            slots = indexed(words, count, 2 * words.size)
    return number, count, begins, ends, words, slots


@njit(_bytes(_read, _i64, _i64, _i64), **JIT)
def _copy_strings(data, begins, ends, offsets):
    """Return the strings data[begins[i] : ends[i]] concatenated, and write the begin of each, and the end of the last, to
    `offsets`."""
    out, at = np.empty((ends - begins).sum(), np.uint8), 0
    for i in range(begins.size):
        offsets[i] = at
        length = ends[i] - begins[i]
        out[at : at + length] = data[begins[i] : ends[i]]
        at += length
    offsets[begins.size] = at
    return out


@dataclass
class Hashed:
    """Strings and their hashes: string i is data[begins[i] : ends[i]]."""

    data: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    hashes: np.ndarray

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def bytes(self) -> int:
        """The number of bytes of all strings."""
        return int((self.ends - self.begins).sum())

    def compacted(self) -> "Hashed":
        """Return a copy whose data has no bytes around and between the strings."""
        offsets = np.empty(len(self) + 1, np.int64)
        content = _copy_strings(self.data, self.begins, self.ends, offsets)
        return Hashed(content, offsets[:-1], offsets[1:], self.hashes)


def concatenate_texts(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Return (bytes, starts): texts concatenated, and the begin of each, followed by the end of the last."""
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=starts[1:])
    return np.frombuffer(b"".join(texts), np.uint8), starts


def string_arrays(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Iterator:
    """Yield the strings data[begins[i] : ends[i]] of UTF-8 bytes as pyarrow arrays of at most `MAX_ARROW_BYTES` bytes, unless a
    single string has more.

    >>> [array.to_pylist() for array in string_arrays(np.frombuffer(b"abc", np.uint8), np.array([1, 0]), np.array([3, 0]))]
    [['bc', '']]
    """
    import pyarrow as pa

    total, first = np.cumsum(ends - begins), 0
    while first < len(begins):
        limit = MAX_ARROW_BYTES + (total[first - 1] if first else 0)
        last = max(first + 1, int(np.searchsorted(total, limit, "right")))
        offsets = np.empty(last - first + 1, np.int64)
        content = _copy_strings(data, begins[first:last], ends[first:last], offsets)
        yield pa.StringArray.from_buffers(last - first, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content))
        first = last


def places_of(strings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (data, begins, ends): the bytes of a pyarrow array of strings, and the begin and end of each string in them.

    >>> import pyarrow as pa
    >>> [part.tolist() for part in places_of(pa.array(["é", "b"]))]
    [[195, 169, 98], [0, 2], [2, 3]]
    """
    if not len(strings):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4).astype(np.int64)
    return np.frombuffer(data or b"", np.uint8), ends[:-1], ends[1:]
