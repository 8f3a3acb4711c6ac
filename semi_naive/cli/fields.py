"""The text of facts and values in the commands of a session: how it is read, and how answers are printed."""

import re

from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import abbreviated, bits_of_text, to_value
from semi_naive.io.values.record_text import TableStyle
from semi_naive.ra.ir import Kind

VALUE = r'"(?:[^"\\]|\\.)*"|\S+'
VALUES = rf"(?:\s+\w+=(?:{VALUE}))*"  # of parameters
QUOTED = re.compile(r'((?:[^"\\]|\\.)*)"', re.DOTALL)  # what follows an opening quote, up to the closing one
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def relation_and_values(text: str) -> tuple[str, dict]:
    """Parse `R NAME=VALUE…`, the relation and the values of its parameters.

    >>> relation_and_values('near src=1 by="a b"')
    ('near', {'by': 'a b', 'src': 1})
    """
    if not (found := re.fullmatch(rf"\s*([^\s=]+)({VALUES})\s*", text)):
        raise BadInput(f"expected R [NAME=VALUE…], found {abbreviated(text.strip())}")
    return found[1], dict(sorted(parameter_values(found[2]).items()))


def parameter_values(text: str) -> dict[str, int | float | str]:
    """Parse the values of parameters, ` NAME=VALUE…`; a word without quotes that is no number is a text.

    >>> parameter_values(' a=1 b=-2.5 c=x d="1"')
    {'a': 1, 'b': -2.5, 'c': 'x', 'd': '1'}
    """
    values: dict[str, int | float | str] = {}
    for name, value in re.findall(rf"(\w+)=({VALUE})", text):
        values[name] = _unquoted(value)
        for number in (int, float) if not value.startswith('"') else ():
            try:
                values[name] = number(value)
                break
            except ValueError:
                pass
    return values


def split_word(text: str) -> tuple[str, str]:
    """Split a text into its first word and the rest, without the tab or the blanks between them.

    >>> split_word("insert edge\\t\\tb"), split_word("edge\\t\\tb"), split_word("quit")
    (('insert', 'edge\\t\\tb'), ('edge', '\\tb'), ('quit', ''))
    """
    word = (text.split(None, 1) or [""])[0]
    rest = text[text.index(word) + len(word) :]
    return word, rest.lstrip(" ") if rest.startswith(" ") else rest[1:]


class LineStyle(TableStyle):
    """The style of fields as `split_fields` reads them between tabs: quoted if they have a tab, a line break or a leading
    quote."""

    keeps_symbols = False

    def field(self, value, kind: Kind) -> str:
        r"""Return the text of a field.

        >>> print(LineStyle().field("a b", Kind.SYMBOL), LineStyle().field("a\nb", Kind.SYMBOL))
        a b "a\nb"
        """
        text = super().field(value, kind)
        if not text.startswith('"') and not set(text) & set("\t\n\r"):
            return text
        for letter, character in (("\\", "\\"), ('"', '"'), *ESCAPES.items()):
            text = text.replace(character, f"\\{letter}")
        return f'"{text}"'


def split_fields(text: str) -> list[str]:
    r"""Split the fields of a fact: at tabs if there are any, else at blanks outside of records' brackets. A field in double
    quotes may contain both; \n, \t, \r, \" and \\ in it are escapes as in a program.

    >>> split_fields('"Ann Lee" [1, [2, nil]] 7'), split_fields('Ann Lee\t"a\\tb"\t')
    (['Ann Lee', '[1, [2, nil]]', '7'], ['Ann Lee', 'a\tb', ''])
    >>> split_fields("$Cons(1, [2, $Nil]) (7")
    ['$Cons(1, [2, $Nil])', '(7']
    """
    if "\t" in text:
        return [_unquoted(field) for field in text.split("\t")]
    fields, position = [], 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        field, position = _quoted_field(text, position + 1) if text[position] == '"' else _unquoted_field(text, position)
        fields.append(field)
    return fields


def _unquoted(field: str) -> str:
    """Return a field between tabs, without its quotes if it has them."""
    if not field.startswith('"'):
        return field
    found, end = _quoted_field(field, 1)
    if end < len(field):
        raise BadInput(f"a quoted field goes on behind its quote: {abbreviated(field)}", hint='a " in quotes is written \\"')
    return found


def _quoted_field(text: str, position: int) -> tuple[str, int]:
    """Return (the field up to the closing quote, its end), given the position after the opening quote."""
    if not (found := QUOTED.match(text, position)):
        raise BadInput(f"a quote is not closed: {abbreviated(text)}")
    return re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[1]), found[1], flags=re.DOTALL), found.end()


def _unquoted_field(text: str, position: int) -> tuple[str, int]:
    """Return (the field from a position up to a blank outside of brackets, its end). Round brackets count in a branch only."""
    begin, depth, in_quotes = position, 0, False
    opening, closing = ("[(", "])") if text.startswith("$", position) else ("[", "]")
    while position < len(text) and (depth > 0 or in_quotes or not text[position].isspace()):
        if depth and text[position] == '"' and text[position - 1] != "\\":
            in_quotes = not in_quotes
        elif not in_quotes:
            depth += (text[position] in opening) - (text[position] in closing and depth > 0)
        position += 1
    return text[begin:position], position


def python_value(field: str, kind: Kind):
    """Return the Python value of a field; of a record its text, which is parsed as in files."""
    return field if kind in (Kind.SYMBOL, Kind.RECORD) else to_value(bits_of_text(field, kind), kind)
