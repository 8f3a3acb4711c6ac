"""Shortening of SVG paths: coordinates rounded to a tenth of a point, and points that cannot be seen left out.

In a line over thousands of iterations, several share one point of paper (1/72 inch); only their range, from the lowest to the
highest, is visible.
"""

import re

import numpy as np

MIN_POINTS_TO_THIN = 1500  # points of a path above which it is thinned
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
STRAIGHT = re.compile(r"\s*M[MLz\s\d.-]+")
LONG = re.compile(r"-?\d+\.\d\d+")


def shorter(path: str) -> str:
    """A path's `d` in fewer characters, with the same appearance.

    >>> shorter("M 10.123456 20 \\nL 30.04 20 \\nL 30.01 70 \\nL 40 80 \\nz\\n")
    'M10.1 20H30V70L40 80z'
    """
    if not STRAIGHT.fullmatch(path):
        return LONG.sub(lambda found: _rounded(float(found[0])), path)
    return "".join(_part(part) for part in re.split(r"(?=M)", path) if part.strip())


def _part(part: str) -> str:
    points = np.array(NUMBER.findall(part), np.float64).reshape(-1, 2)
    closed = "z" if "z" in part else ""
    return _path_commands(thinned_points(points) if len(points) > MIN_POINTS_TO_THIN else points) + closed


def thinned_points(points: np.ndarray) -> np.ndarray:
    """Keep the first, last, lowest and highest of neighbours that share a point horizontally, in their order.

    >>> thinned_points(np.array([[0, 5], [0.1, 9], [0.2, 1], [0.3, 4], [0.4, 6], [1.5, 2]])).tolist()
    [[0.0, 5.0], [0.1, 9.0], [0.2, 1.0], [0.4, 6.0], [1.5, 2.0]]
    """
    cells, kept = np.floor(points[:, 0]), []
    starts = np.flatnonzero(np.diff(cells, prepend=np.nan) != 0)
    for begin, end in zip(starts, [*starts[1:], len(points)], strict=True):
        heights = points[begin:end, 1]
        kept += sorted({begin, begin + heights.argmin(), begin + heights.argmax(), end - 1})
    return points[kept]


def _path_commands(points: np.ndarray) -> str:
    """Path commands. Horizontal and vertical moves name one coordinate; moves to the current point are dropped."""
    x, y = (_rounded(value) for value in points[0])
    parts = [f"M{x} {y}"]
    for to_x, to_y in points[1:]:
        to_x, to_y = _rounded(to_x), _rounded(to_y)
        if to_x != x:
            parts.append(f"L{to_x} {to_y}" if to_y != y else f"H{to_x}")
        elif to_y != y:
            parts.append(f"V{to_y}")
        x, y = to_x, to_y
    return "".join(parts)


def _rounded(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 0.05 else "0"
