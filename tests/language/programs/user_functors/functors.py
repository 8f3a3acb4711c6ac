import numba
import numpy as np

from semi_naive import vectorised


@vectorised
def step(x):
    return np.where(x % 2 == 0, x // 2, 3 * x + 1)


def shout(word, times):
    return word * times + "!"


def moved(place, by):
    row, column = place
    return row + by, column - by


@numba.njit
def hashed(so_far, x):
    return (so_far * 31 + x) % 1_000_003


ratio = np.divide
