"""MGT: triangles of a graph larger than memory, and nothing else (Hu, Tao and Chung, "Massive Graph Triangulation", 2013).

    for every chunk of the edges that fits memory:
        for every vertex u, and the vertices v that u's edges lead to:
            the edges (v, w) of the chunk of which u's edges lead to w too are triangles (u, v, w)

The edges are oriented by degree. A specialised competitor of ours, so written with the same care: the neighbours of u are
marked in a byte map, and a vertex whose edges do not meet the chunk costs one look.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import types

from semi_naive.host.jit import njit
from semi_naive.ra.words import JIT

i32, i64 = types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C")
EDGE = 4  # bytes of one in memory
READ = 1 << 18  # edges of the vertices that are passed over at a time
PIECES = 64  # of the vertices for each thread


def count(index: np.ndarray, targets: np.ndarray, threads: int = 1, memory: int | None = None) -> int:
    """The triangles of oriented edges: targets[index[u]:index[u + 1]] are those of u. `memory`: bytes of a chunk."""
    room = max(len(targets) if memory is None else memory // EDGE, 1)
    ends = np.linspace(0, len(targets), threads * PIECES + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(index, ends), [len(index) - 1]])).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        total = 0
        for low in range(0, len(targets), room):
            chunk = np.ascontiguousarray(targets[low : low + room])
            jobs = [pool.submit(pass_over, index, targets, 0, chunk, low, *cut) for cut in zip(cuts, cuts[1:], strict=False)]
            total += sum(job.result() for job in jobs)
    return total


def count_file(index: np.ndarray, file, threads: int, memory: int) -> tuple[int, int]:
    """(The triangles, the bytes read) of edges whose targets are in a file: each chunk is read once, and beside it the
    edges of all vertices, some at a time."""
    cuts = np.unique(np.searchsorted(index, np.arange(0, index[-1] + READ, READ)).clip(max=len(index) - 1)).tolist()
    room, edges = max(memory // EDGE, 1), int(index[-1])

    def targets_of(low: int, high: int) -> np.ndarray:
        return np.fromfile(file.name, np.int32, high - low, offset=EDGE * low)

    def job(chunk: np.ndarray, low: int, first: int, last: int) -> tuple[int, int]:
        begin = int(index[first])
        targets = targets_of(begin, int(index[last]))
        return pass_over(index, targets, begin, chunk, low, first, last), targets.nbytes

    with ThreadPoolExecutor(threads) as pool:
        total = read = 0
        for low in range(0, edges, room):
            chunk = targets_of(low, min(low + room, edges))
            jobs = [pool.submit(job, chunk, low, *cut) for cut in zip(cuts, cuts[1:], strict=False)]
            total += sum(each.result()[0] for each in jobs)
            read += chunk.nbytes + sum(each.result()[1] for each in jobs)
    return total, read


@njit(types.int64(i64, i32, types.int64, i32, types.int64, types.int64, types.int64), **JIT)
def pass_over(index, targets, base, chunk, low, first, last):
    """Triangles of the vertices in [first, last) whose opposite edge is in the chunk, which begins at edge `low`. targets: from
    edge `base` on."""
    marked = np.zeros(index.size, np.uint8)
    high, found = low + chunk.size, 0
    for u in range(first, last):
        begin, end = index[u] - base, index[u + 1] - base
        if end - begin < 2:
            continue
        for i in range(begin, end):
            marked[targets[i]] = 1
        for i in range(begin, end):
            v = targets[i]
            hits = np.uint32(0)
            for j in range(np.uint64(max(index[v], low) - low), np.uint64(max(min(index[v + 1], high) - low, 0))):
                hits += np.uint32(marked[np.uint32(chunk[j])])
            found += hits
        for i in range(begin, end):
            marked[targets[i]] = 0
    return found
