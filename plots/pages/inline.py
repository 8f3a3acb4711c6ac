"""A figure inside a page: its SVG, shortened, and in the page's colours for light and dark themes.

It relies on the conventions of `plots.style.svg`: black is text and outlines, and the colours are in `plots.style.NIGHT`.
"""

import re

from semi_naive.plots.pages.outlines import shorter
from semi_naive.plots.style import NIGHT, svg

INK, PAPER = "currentColor", "var(--paper)"
HEAD = re.compile(r"<svg\b[^>]*>")
SCALED = re.compile(r' (?:width|height)="[^"]*"| xmlns(?::\w+)?="[^"]*"| version="[^"]*"')


def inlined(figure, name: str, label: str) -> str:
    """The figure as an <svg> element. name: unique on the page; label: a description of the figure."""
    text = svg(figure, transparent=True)
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).replace("xlink:href", "href")
    head = HEAD.match(text).group()
    opening = SCALED.sub("", head)[:-1] + f' role="img" aria-label="{label}">'
    return opening + _coloured(_shorter(_own_ids(text[len(head) :], name)))


def _own_ids(text: str, name: str) -> str:
    """Make referenced ids unique to this figure and drop the others, as a page has several figures."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)


def _shorter(text: str) -> str:
    """Round coordinates to a tenth of a point, and drop font names."""
    text = re.sub(r"font: ((?:[\w.]+ )*[\d.]+px) [^;\"]*", r"font: \1 var(--font)", text)
    text = re.sub(r"\n +", "\n", text)
    return re.sub(r' (d|x|y)="([^"]*)"', lambda found: f' {found[1]}="{shorter(found[2])}"', text)


def _coloured(text: str) -> str:
    """Replace black by the page's text colour, white by its background, and the palette by variables of `palette`. Hatches stay
    dark."""
    text = re.sub(r"<pattern.*?</pattern>", lambda found: _hatched(found[0]), text, flags=re.DOTALL)
    text = re.sub("#000000|#000(?![0-9a-f])", INK, text)
    text = re.sub("#ffffff|#fff(?![0-9a-f])", PAPER, text)
    return re.sub("|".join(NIGHT), lambda found: f"var({css_variable(found[0])})", text)


def _hatched(pattern: str) -> str:
    return pattern if 'fill="none"' in pattern else pattern.replace("#000000", "var(--hatch)")


def css_variable(colour: str) -> str:
    """The CSS variable of a colour of the palette."""
    return f"--c{colour[1:]}"


def palette(night: bool) -> str:
    """CSS declarations of the palette's variables."""
    return " ".join(f"{css_variable(day)}: {dark if night else day};" for day, dark in NIGHT.items())
