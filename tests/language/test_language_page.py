"""docs/language.md against the language: its grammar is that of grammar.lark, and no word of the language is missing.

`python tests/language/test_language_page.py` writes the grammar into the page.
"""

import re
from pathlib import Path

from semi_naive.language.types.signatures import OVERLOADS

ROOT = Path(__file__).parents[2]
PAGE, GRAMMAR = ROOT / "docs" / "language.md", ROOT / "semi_naive" / "language" / "parsing" / "grammar.lark"
BLOCK = re.compile(r"(<!-- the grammar -->\n```\n).*?(```\n)", re.DOTALL)
TERMINAL = re.compile(r"^([A-Z_]+)(?:\.-?[0-9]+)?: (?:\"([^\"]+)\"|/\\?(\.?[a-z_]+)\(\?.*)$", re.MULTILINE)


def as_shown() -> str:
    """The rules of grammar.lark as the page has them: without what they become, and with the words in place of their names."""
    text = GRAMMAR.read_text()
    words = {name: quoted or begun for name, quoted, begun in TERMINAL.findall(text)}
    rules = text[text.index("start:") : text.index("// -- tokens")]
    lines = []
    for line in rules.split("\n"):
        line = re.sub(r"^// -- (.*)$", r"(* \1 *)", line)
        if line.startswith("//"):
            continue
        line = re.sub(r"\s+-> \w+$", "", line.split("  // ")[0])
        line = re.sub(r"^\??(\w+)(?:\.[0-9]+)?:", r"\1:", line)
        line = re.sub(r"\b[A-Z_]+\b", lambda name: f'"{words[name[0]]}"' if name[0] in words else name[0], line)
        lines.append(line.rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def test_the_grammar_of_the_page_is_that_of_the_parser():
    shown = BLOCK.search(PAGE.read_text())[0].split("```\n")[1]
    assert shown == as_shown(), (
        "the grammar has changed: `python tests/language/test_language_page.py` writes it; tell what is new"
    )


def test_no_word_of_the_language_is_missing():
    page = PAGE.read_text()
    told = BLOCK.sub("", page)
    words = {word for word in re.findall(r'"([^"\s]+)"', as_shown()) if re.fullmatch(r"\.?[\w-]{2,}", word)}
    assert not [
        word for word in sorted(words | OVERLOADS.keys() - {"neg"}) if f"`{word}" not in told and f" {word}" not in told
    ]


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda found: found[1] + as_shown() + found[2], PAGE.read_text()))
