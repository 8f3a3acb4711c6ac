"""Add the help of the commands to the pages of the site, and convert docstrings to Markdown, as mkdocs.yml says.

mkdocs calls `on_config` and `on_page_markdown`; mkdocstrings makes a `Readable`.
"""

import atexit
import os
import re
import shutil
import tempfile
from itertools import groupby
from pathlib import Path

import griffe
from mkdocs.plugins import event_priority

ROOT = Path(__file__).parent.parent
HELP = "<!-- the options of every command -->"
ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*)(?:: | {2,})(\S.*)")
OUTSIDE_LINK = re.compile(r"\[[^\]]+\]\(\.\./([^)#]+)\)")
INLINE = re.compile(r"(?:^|(?<=\. ))([a-z_]\w*): ")
MARGIN = re.compile(r" {4,}|\t")


@event_priority(100)  # before mkdocstrings looks
def on_config(config):
    """Show griffe the package in a folder of links to files, as it follows no links to folders such as `semi_naive/ra`."""
    folder = Path(tempfile.mkdtemp(prefix="semi-naive-docs-"))
    atexit.register(shutil.rmtree, folder, True)
    unread = shutil.ignore_patterns("__pycache__", "kernels")
    shutil.copytree(ROOT / "semi_naive", folder / "semi_naive", ignore=unread, copy_function=os.symlink)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(folder)]
    return config


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Replace links to files of the repository, which the site does not have, by their names, and the mark HELP by the help."""
    markdown = OUTSIDE_LINK.sub(r"`\1`", markdown)
    return markdown.replace(HELP, helps()) if HELP in markdown else markdown


def helps() -> str:
    """Return what `--help` prints of every command, under a heading each."""
    import click

    from semi_naive.__main__ import cli

    top = click.Context(cli, info_name="semi-naive")
    parts = []
    for name, command in cli.commands.items():
        with click.Context(command, info_name=name, parent=top, max_content_width=110, terminal_width=110) as context:
            parts.append(f"### semi-naive {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


class Readable(griffe.Extension):
    """Converts docstrings to Markdown before they are shown."""

    def on_instance(self, *, obj, **ignored) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown: its examples as blocks of code, and paragraphs of `name: what it is` as lists.

    >>> print(as_markdown("Evaluate.\\n\\nfacts: a folder\\n    or data.\\nspark: it\\n\\n>>> 1 + 1\\n2").replace(">>>", "..."))
    Evaluate.
    <BLANKLINE>
    - **facts**: a folder
        or data.
    - **spark**: it
    <BLANKLINE>
    ```pycon
    ... 1 + 1
    2
    ```
    """
    paragraphs = [list(lines) for blank, lines in groupby(text.splitlines(), lambda line: not line.strip()) if not blank]
    return "\n\n".join("\n".join(_paragraph(lines)) for lines in paragraphs)


def _paragraph(lines: list[str]) -> list[str]:
    """Return the lines of a paragraph of a docstring as Markdown."""
    begun = lines[0].lstrip()
    if begun.startswith(">>> "):
        margin = len(lines[0]) - len(begun)
        return ["```pycon", *(line[margin:] for line in lines), "```"]
    if all(MARGIN.match(line) for line in lines):
        return ["```text", *(line[4:] for line in lines), "```"]
    items = [ITEM.fullmatch(line) for line in lines]
    if all(item or MARGIN.match(line) for item, line in zip(items, lines, strict=True)):
        return [
            f"- **{item[1]}**: {item[2]}" if item else f"    {line.strip()}" for item, line in zip(items, lines, strict=True)
        ]
    before, *parts = INLINE.split(" ".join(map(str.strip, lines)))
    if not before and len(parts) > 2:  # several in one paragraph
        return [f"- **{name}**: {text.strip()}" for name, text in zip(parts[::2], parts[1::2], strict=True)]
    return lines
