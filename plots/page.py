"""The pieces that a report is made of, as HTML: everything that is handed in is text and is escaped here, except what is
called a body, which is HTML already."""

from html import escape
from importlib.resources import files
from string import Template

from semi_naive.plots.inline import palette

# The page fetches nothing: all of it is inside, and a browser is told to see to that.
ALONE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="semi-naive">
$more<title>$title</title>
<style>
$style</style>
</head>
<body>
$body
</body>
</html>
""")


def page(title: str, body: str, more: str = "") -> str:
    """A whole page. `more`: what else its head has."""
    return PAGE.substitute(title=escape(title), style=style(), body=body, more=more)


def standing_alone() -> str:
    """What the head of a page says that is a file."""
    return f'<meta http-equiv="Content-Security-Policy" content="{ALONE}">\n'


def style() -> str:
    return Template(text_of("report.css")).substitute(day=palette(night=False), night=palette(night=True))


def text_of(name: str) -> str:
    """A file that lies beside this one."""
    return files("semi_naive.plots").joinpath(name).read_text(encoding="utf-8")


def section(name: str, title: str, body: str) -> str:
    """A part of the page under a heading; nothing at all when there is nothing to say."""
    return f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n{body}\n</section>' if body else ""


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>"


def folded(name: str, title: str, body: str, unfolded: bool = False) -> str:
    """What is there when asked for. name: a word that tells it from others, so that it stays open when the page is renewed."""
    return f'<details id="{name}"{" open" * unfolded}>\n<summary>{escape(title)}</summary>\n{body}\n</details>'


def bullet_list(sentences: list[str]) -> str:
    return '<ul class="events">\n' + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def table(caption: str, columns: list[tuple[str, str]], rows: list[list]) -> str:
    """Rows under their columns, the first of each being its heading; what is too wide is scrolled by itself.

    columns: (heading, class) each: number, text, bar or nothing. A cell is text, or a `Markup`.
    """
    head = "".join(f'<th scope="col"{_class(kind)}>{escape(name)}</th>' for name, kind in columns)
    body = "\n".join(f"<tr>{_row(row, [kind for _, kind in columns])}</tr>" for row in rows)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return paragraph(caption, "quiet") + "\n" + _scrolled(caption, f'<table aria-label="{escape(caption)}">\n{inner}\n</table>')


def facts(caption: str, rows: dict[str, str]) -> str:
    """Names and what there is to say of each; of two columns, so without headings for them."""
    body = "\n".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows.items())
    return _scrolled(caption, f'<table class="facts" aria-label="{escape(caption)}">\n<tbody>\n{body}\n</tbody>\n</table>')


def _row(cells: list, kinds: list[str]) -> str:
    first, *others = (_cell(cell) for cell in cells)
    rest = "".join(f"<td{_class(kind)}>{cell}</td>" for cell, kind in zip(others, kinds[1:], strict=True))
    return f'<th scope="row"{_class(kinds[0])}>{first}</th>{rest}'


class Markup(str):
    """HTML already."""


def _cell(cell) -> str:
    return cell if isinstance(cell, Markup) else escape(str(cell))


def code(text: str) -> Markup:
    return Markup(f"<code>{escape(text)}</code>")


def bar(share: float, part: str = "") -> Markup:
    """A bar so long, of 1; what it says stands in another cell as a number. part: of an account, that it has the looks of."""
    looks = f' data-part="{part}"' if part else ""
    return Markup(f'<i style="--share: {share:.1%}"{looks} aria-hidden="true"></i>')


def _scrolled(what: str, body: str) -> str:
    """A keyboard scrolls only what it can be on."""
    return f'<div class="wide" role="region" aria-label="{escape(what)}" tabindex="0">\n{body}\n</div>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
