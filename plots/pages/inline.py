"""Put a figure into a page: its SVG, shortened, and in the page's colours for light and dark themes.

It relies on the conventions of `plots.style.svg`: black is text and outlines, and the colours are in `plots.style.NIGHT`.
"""

import re

import numpy as np

from semi_naive.plots.style import NIGHT, svg

INK, PAPER = "currentColor", "var(--paper)"
FIXED_SIZE = re.compile(r' (?:width|height)="[^"]*"| xmlns(?::\w+)?="[^"]*"| version="[^"]*"')


def inlined(figure, name: str, label: str) -> str:
    """Return a figure as an <svg> element. name: unique on the page; label: a description of the figure."""
    text = svg(figure, transparent=True)
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).replace("xlink:href", "href")
    end = text.index(">")  # of the opening tag
    opening = FIXED_SIZE.sub("", text[:end]) + f' role="img" aria-label="{label}">'
    return opening + _coloured(_shorter(_own_ids(text[end + 1 :], name)))


def _own_ids(text: str, name: str) -> str:
    """Return an SVG whose referenced ids are unique to this figure, and without other ids, as a page has several figures."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)


def _shorter(text: str) -> str:
    """Round coordinates to a tenth of a point, and drop font names."""
    text = re.sub(r"font: ((?:[\w.]+ )*[\d.]+px) [^;\"]*", r"font: \1 var(--font)", text)
    text = re.sub(r"\n +", "\n", text)
    return re.sub(r' (d|x|y)="([^"]*)"', lambda found: f' {found[1]}="{shorter(found[2])}"', text)


def _coloured(text: str) -> str:
    """Return an SVG with black replaced by the page's text colour, white by its background, and the palette by variables of
    `palette`. Hatches remain dark."""
    text = re.sub(r"<pattern.*?</pattern>", lambda found: _hatched(found[0]), text, flags=re.DOTALL)
    text = re.sub("#000000|#000(?![0-9a-f])", INK, text)
    text = re.sub("#ffffff|#fff(?![0-9a-f])", PAPER, text)
    return re.sub("|".join(NIGHT), lambda found: f"var({css_variable(found[0])})", text)


def _hatched(pattern: str) -> str:
    return pattern if 'fill="none"' in pattern else pattern.replace("#000000", "var(--hatch)")


def css_variable(colour: str) -> str:
    """Return the CSS variable of a colour of the palette."""
    return f"--c{colour[1:]}"


def palette(night: bool) -> str:
    """Return the CSS declarations of the palette's variables, for dark pages if `night`."""
    return " ".join(f"{css_variable(day)}: {dark if night else day};" for day, dark in NIGHT.items())


MIN_POINTS_TO_THIN = 1500  # points of a path above which it is thinned
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
STRAIGHT = re.compile(r"\s*M[MLz\s\d.-]+")
LONG = re.compile(r"-?\d+\.\d\d+")


def shorter(path: str) -> str:
    """Return a path's `d` in fewer characters, with the same appearance.

    >>> shorter("M 10.123456 20 \\nL 30.04 20 \\nL 30.01 70 \\nL 40 80 \\nz\\n")
    'M10.1 20H30V70L40 80z'
    """
    if not STRAIGHT.fullmatch(path):
        return LONG.sub(lambda found: _rounded(float(found[0])), path)
    return "".join(_subpath(part) for part in re.split(r"(?=M)", path) if part.strip())


def _subpath(part: str) -> str:
    """Return one subpath in fewer characters; one of many points is thinned."""
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
    """Return path commands. Horizontal and vertical moves name one coordinate; moves to the current point are dropped."""
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
