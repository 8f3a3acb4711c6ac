"""Building blocks of a report's HTML. Text arguments are escaped; arguments called body are HTML."""

from html import escape
from importlib.resources import files
from string import Template

from semi_naive.plots.pages.inline import palette

# The page is self-contained; with this policy browsers fetch nothing.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
HEAD_OF_FILE = f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">\n'
PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="semi-naive">
$head<title>$title</title>
<style>
$style</style>
</head>
<body>
$body
</body>
</html>
""")


def page(title: str, body: str, head: str = "") -> str:
    """Return a whole page. head: further elements of its <head>."""
    return PAGE.substitute(title=escape(title), style=style(), body=body, head=head)


def style() -> str:
    return Template(text_of("report.css")).substitute(day=palette(night=False), night=palette(night=True))


def text_of(name: str) -> str:
    """Return the text of a file in this package's folder."""
    return files("semi_naive.plots.pages").joinpath(name).read_text(encoding="utf-8")


def section(name: str, title: str, body: str) -> str:
    """Return a section of the page under a heading; "" if the body is empty."""
    return f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n{body}\n</section>' if body else ""


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>"


def folded(name: str, title: str, body: str, unfolded: bool = False) -> str:
    """Return a body that is hidden until it is opened. name: unique on the page, so that it remains open when the page is
    refreshed."""
    return f'<details id="{name}"{" open" * unfolded}>\n<summary>{escape(title)}</summary>\n{body}\n</details>'


def bullet_list(sentences: list[str]) -> str:
    return '<ul class="events">\n' + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def table(caption: str, columns: list[tuple[str, str]], rows: list[list]) -> str:
    """Return a table with a caption. The first cell of each row is its heading. A wide table scrolls by itself.

    columns: (heading, class) of each; the class is number, text, bar or "". rows: cells are text, or `Markup`.
    """
    head = "".join(f'<th scope="col"{_class(kind)}>{escape(name)}</th>' for name, kind in columns)
    body = "\n".join(f"<tr>{_row(row, [kind for _, kind in columns])}</tr>" for row in rows)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return paragraph(caption, "quiet") + "\n" + _scrolled(caption, f'<table aria-label="{escape(caption)}">\n{inner}\n</table>')


def facts(caption: str, rows: dict[str, str]) -> str:
    """Return a table of names and values, without column headings."""
    body = "\n".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows.items())
    return _scrolled(caption, f'<table class="facts" aria-label="{escape(caption)}">\n<tbody>\n{body}\n</tbody>\n</table>')


def _row(cells: list, kinds: list[str]) -> str:
    """Return a table row. kinds: the style of each column."""
    first, *others = (_cell(cell) for cell in cells)
    rest = "".join(f"<td{_class(kind)}>{cell}</td>" for cell, kind in zip(others, kinds[1:], strict=True))
    return f'<th scope="row"{_class(kinds[0])}>{first}</th>{rest}'


class Markup(str):
    """A string of HTML, which is not escaped."""


def _cell(cell) -> str:
    return cell if isinstance(cell, Markup) else escape(str(cell))


def code(text: str) -> Markup:
    return Markup(f"<code>{escape(text)}</code>")


def bar(share: float, part: str = "") -> Markup:
    """Return a bar of a length up to 1, whose number is in another cell. part: the part of an account that determines its
    style."""
    looks = f' data-part="{part}"' if part else ""
    return Markup(f'<i style="--share: {share:.1%}"{looks} aria-hidden="true"></i>')


def _scrolled(what: str, body: str) -> str:
    """Return a scrolling container that takes the focus, as a keyboard can only scroll focused elements."""
    return f'<div class="wide" role="region" aria-label="{escape(what)}" tabindex="0">\n{body}\n</div>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
