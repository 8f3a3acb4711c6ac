"""`semi-naive session`: read transactions, rules and queries line by line, and print the changes.

A change of facts outside of begin and commit is a transaction of its own.
"""

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import click
import numpy as np

from semi_naive.host.limits import LimitExceeded
from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.patterns import match_files
from semi_naive.io.results.sorted_rows import ColumnRows
from semi_naive.io.results.writing import lines
from semi_naive.io.values.bits import BUILT_IN, abbreviated, float_text, of_text, to_value
from semi_naive.io.values.record_text import ReadableStyle
from semi_naive.language.errors import ProgramError
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Kind

PROMPT, INSIDE = "> ", "… "
USAGE = {
    "begin": "", "insert": "R v…", "delete": "R v…", "upsert": "R(KEY, …) v…", "clear": "R", "load": "R FILE",
    "unload": "R FILE", "commit": "", "abort": "", "query": "BODY. [NAME=VALUE…]", "why": "R v…", "why_not": "R v…",
    "explain": "[R]", "register": "NAME RULES", "unregister": "NAME", "subscribe": "R [NAME=VALUE…]",
    "unsubscribe": "R [NAME=VALUE…]", "quit": "",
}  # fmt: skip
COMMANDS = ", ".join(f"{command} {arguments}".strip() for command, arguments in USAGE.items())
_VALUE = r'"(?:[^"\\]|\\.)*"|\S+'
_VALUES = rf"(?:\s+\w+=(?:{_VALUE}))*"
EXPECTED = (
    ValueError,
    KeyError,
    OSError,
    NotImplementedError,
    ProgramError,
    EvaluationError,
    LimitExceeded,
)  # lines that do not end a session
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def run_session(program: str, state: str | None, given: dict) -> None:
    """Read commands from standard input until it ends. given: the other options of the command, by their names. state: the
    directory that makes it durable, if any."""
    if program == "-":
        raise BadInput("the program cannot be read from standard input", hint="commands are: name a file")
    with open_session(program, state, given) as session:
        Shell(session, sys.stdin, sys.stdin.isatty()).run()


def open_session(program: str, state: str | None, given: dict, retain: int = 0):
    """Open the session of a program in a file. state: the directory that makes it durable, if any; given: the other options of
    the command; retain: see `Program.session`."""
    from semi_naive import Config
    from semi_naive.cli.program import FactOptions, Origin
    from semi_naive.cli.run import check_folders, definitions, libraries_of, print_warnings, sandbox_of

    facts = FactOptions.given(given["facts"], given["header"])
    check_folders(facts.folder or ".", "-", given["include_dirs"])
    reading = {"include_dirs": given["include_dirs"], "defines": definitions(given["macros"])}
    reading["sandbox"] = sandbox_of(given | {"output": "-"})
    checked = Origin(program, facts=facts).checked(reading | {"functors": libraries_of(given), "legacy": given["legacy"]})
    print_warnings(checked, checked.warnings)
    config = Config().with_options(given["options"])
    session = checked.session(facts.of_session(checked), path=state, retain=retain, config=config)
    if session.derived_anew:
        click.echo(f"semi-naive: derived anew by other rules: {', '.join(session.derived_anew)}", err=True)
    return session


class Shell:
    """Executes the commands for one session, read from a stream. An error ends it unless the stream is a terminal; then an open
    transaction is rolled back.
    """

    def __init__(self, session, stream, interactive: bool):
        self.session, self.stream, self.interactive = session, stream, interactive
        self.open = None
        self.lines = self._lines()
        self.subscriptions: dict[str, Any] = {}  # by the text of the command, in one form

    def run(self) -> None:
        """Read and execute commands until the end."""
        try:
            for number, line in self.lines:
                try:
                    if self._do(line.rstrip("\r\n").lstrip()):
                        return
                except EXPECTED as error:
                    wrong = BadInput(_message(error), "<stdin>", number)
                    if not self.interactive:
                        raise wrong from error
                    click.echo(f"semi-naive: {wrong}", err=True)
            if self.open is not None:
                message = "the input ends inside of a transaction, which is rolled back"
                raise BadInput(message, "<stdin>", hint="end it with commit")
        finally:
            self._abort()

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield (number, line) of the stream, after a prompt on a terminal."""
        number = 0
        while True:
            if self.interactive:
                click.echo(PROMPT if self.open is None else INSIDE, nl=False)
            if not (line := self.stream.readline()):
                return
            number += 1
            yield number, line.removeprefix("\ufeff") if number == 1 else line

    def _do(self, line: str) -> bool:
        """Run one command; True if it was the last."""
        if not line.strip() or line.startswith(("#", "//")):
            return False
        command, rest = _split_word(line)
        if command == "quit":
            return True
        if command not in USAGE:
            raise BadInput(f"{abbreviated(command)} is no command", hint=f"commands are {COMMANDS}")
        arguments = USAGE[command]
        if arguments and not arguments.startswith("[") and not rest.strip() or not arguments and rest.strip():
            raise BadInput(f"expected {command} {arguments}".rstrip())
        getattr(self, f"_{command}")(*[rest] * bool(arguments))
        return False

    # -- commands

    def _begin(self) -> None:
        """Begin a transaction."""
        if self.open is not None:
            raise BadInput("a transaction is open already", hint="commit or abort it")
        self.open = self.session.transaction().begin()

    def _commit(self) -> None:
        """Commit the open transaction, and print its changes."""
        transaction, self.open = self._opened(), None
        transaction.commit()
        self._print(transaction)

    def _abort(self) -> None:
        """Roll back the open transaction, if any."""
        if self.open is not None:
            transaction, self.open = self.open, None
            transaction.abort()

    def _opened(self):
        """Return the open transaction. Raises BadInput if there is none."""
        if self.open is None:
            raise BadInput("no transaction is open", hint="begin one with begin")
        return self.open

    def _insert(self, rest: str) -> None:
        self._change("insert", *self._fact(rest))

    def _delete(self, rest: str) -> None:
        self._change("delete", *self._fact(rest))

    def _upsert(self, rest: str) -> None:
        """Insert a fact in place of those with its values of some attributes, the key."""
        found = re.fullmatch(r"([^\s(]+)\s*\(([^()]*)\)\s?(.*)", rest, re.DOTALL)
        if not found or not found[2].strip():
            raise BadInput(f"expected upsert {USAGE['upsert']}", hint="the attributes in brackets are the key")
        key = [name.strip() for name in found[2].split(",")]
        self._change("upsert", *self._fact(f"{found[1]} {found[3]}"), key)

    def _clear(self, rest: str) -> None:
        """Delete all facts of a relation."""
        self._change("clear", rest.strip())

    def _load(self, rest: str) -> None:
        self._change("insert", *self._file(rest, "load"))

    def _unload(self, rest: str) -> None:
        self._change("delete", *self._file(rest, "unload"))

    def _change(self, operation: str, relation: str, *given) -> None:
        """Change facts, in the open transaction or in one of their own. operation: the method of a transaction; given: its
        arguments after the relation."""
        if self.open is not None:
            getattr(self.open, operation)(relation, *given)
        else:
            self._print(getattr(self.session, operation)(relation, *given))

    def _query(self, rest: str) -> None:
        """Print the answers of a query."""
        found = re.fullmatch(rf"(.*\.)({_VALUES})\s*", rest, re.DOTALL)
        body, values = found.groups() if found else (rest, "")
        answer = self.session.query(body, **_values(values))
        for line in self._texts(answer.relation, answer.encoded()):
            click.echo(line)

    def _why(self, rest: str) -> None:
        """Print a proof of a tuple."""
        name, (row,) = self._fact(rest)
        click.echo(str(self.session.why(name, row)))

    def _why_not(self, rest: str) -> None:
        """Print what each rule for a tuple lacks."""
        name, (row,) = self._fact(rest)
        click.echo(str(self.session.why_not(name, row)))

    def _explain(self, rest: str) -> None:
        """Print the plans of the rules for a relation, or of all rules."""
        click.echo(self.session.explain(rest.strip() or None), nl=False)

    def _register(self, rest: str) -> None:
        """Register rules for a relation: those behind its name, or the lines up to an empty one."""
        name, rules = _split_word(rest.strip())
        if not rules:
            taken = iter(lambda: next(self.lines, (0, ""))[1].rstrip("\r\n"), "")
            rules = "\n".join(taken)
        self.session.register(name, rules)

    def _unregister(self, rest: str) -> None:
        self.session.unregister(rest.strip())

    def _subscribe(self, rest: str) -> None:
        """Include a relation, or one of registered rules with some values of its parameters, in the changes that each
        transaction prints."""
        name, values = _subscribed(rest)
        if (told := f"{name} {values}") in self.subscriptions:
            raise BadInput(f"{name} is subscribed to already")
        self.subscriptions[told] = self.session.subscribe(name, lambda changes, epoch: None, **values)

    def _unsubscribe(self, rest: str) -> None:
        """Take back a subscription, named by the same relation and values."""
        name, values = _subscribed(rest)
        if (told := f"{name} {values}") not in self.subscriptions:
            raise BadInput(f"{name} is not subscribed to", hint=f"subscribed are {', '.join(self.subscriptions) or 'none'}")
        self.subscriptions.pop(told).cancel()

    # -- in

    def _fact(self, text: str) -> tuple[str, list[tuple]]:
        """Parse `R v…`: the relation, and one fact."""
        name, text = _split_word(text)
        relation = self.session.relations[self.session.check_known(name)]
        fields = [] if not relation.arity and text.strip() == "()" else _fields(text)
        if len(fields) != relation.arity:
            names = ", ".join(f"{attribute}: {type_.name}" for attribute, type_ in relation.attributes)
            hint = "fields are separated by blanks; one that has some is in double quotes"
            raise BadInput(
                f"{name}({names}) has {quantity(relation.arity, 'attribute')}, found {quantity(len(fields), 'field')}",
                hint=hint,
            )
        return name, [tuple(map(_python, fields, relation.kinds))]

    def _file(self, text: str, command: str) -> tuple[str, str]:
        """Return the relation and the path that are the arguments of a command."""
        name, text = _split_word(text)
        path = _fields(text)
        if len(path) != 1:
            raise BadInput(f"expected {command} {USAGE[command]}", hint="a name with blanks is in double quotes")
        if "://" not in path[0] and match_files(path[0]) is None and not os.path.exists(path[0]):
            raise BadInput("no such file", path[0], hint=f"looked from {os.getcwd()}")
        return name, path[0]

    # -- out

    def _print(self, transaction) -> None:
        """Print the changes of a committed transaction."""
        for name, changes in transaction.changes.items():
            relation, columns = self.session.relations[name], changes.encoded()
            for sign in (-1, 1):
                for line in self._texts(relation, np.ascontiguousarray(columns[:-1, columns[-1] == sign])):
                    click.echo(f"{name}\t{sign:+d}\t{line}")
        sys.stdout.flush()

    def _texts(self, relation, columns: np.ndarray) -> list[str]:
        """Tuples as sorted lines."""
        if not relation.arity:
            return ["()"] * columns.shape[1]
        upkeep, seams = self.session.upkeep, ["", *["\t"] * (relation.arity - 1), "\n"]
        types = BUILT_IN | upkeep.program.types
        pieces = lines(ColumnRows(columns), relation, types, upkeep.values, ReadableStyle(), _printed, seams)
        return b"".join(pieces).decode().split("\n")[:-1]


def _subscribed(text: str) -> tuple[str, dict]:
    """Parse `R NAME=VALUE…`.

    >>> _subscribed('near src=1 by="a b"')
    ('near', {'by': 'a b', 'src': 1})
    """
    if not (found := re.fullmatch(rf"\s*([^\s=]+)({_VALUES})\s*", text)):
        raise BadInput(f"expected R {USAGE['subscribe'][2:]}, found {abbreviated(text.strip())}")
    return found[1], dict(sorted(_values(found[2]).items()))


def _values(text: str) -> dict[str, int | float | str]:
    """The values of parameters, as in a program; a word without quotes is a text.

    >>> _values(' a=1 b=-2.5 c=x d="1"')
    {'a': 1, 'b': -2.5, 'c': 'x', 'd': '1'}
    """
    found: dict[str, int | float | str] = {}
    for name, value in re.findall(rf"(\w+)=({_VALUE})", text):
        found[name] = _unquoted(value)
        for kind in (int, float) if not value.startswith('"') else ():
            try:
                found[name] = kind(value)
                break
            except ValueError:
                pass
    return found


def _split_word(text: str) -> tuple[str, str]:
    """Split off the first word, followed by one tab or by blanks.

    >>> _split_word("insert edge\\t\\tb"), _split_word("edge\\t\\tb"), _split_word("quit")
    (('insert', 'edge\\t\\tb'), ('edge', '\\tb'), ('quit', ''))
    """
    word = (text.split(None, 1) or [""])[0]
    rest = text[text.index(word) + len(word) :]
    return word, rest.lstrip(" ") if rest.startswith(" ") else rest[1:]


def _printed(kind: Kind, value) -> str:
    r"""Return a value as text that `_fields` reads back: text with a tab, a line break or a leading quote is quoted.

    >>> print(_printed(Kind.SYMBOL, "a b"), _printed(Kind.SYMBOL, "a\nb"))
    a b "a\nb"
    """
    if kind == Kind.FLOAT:
        return float_text(value)
    if not value.startswith('"') and not set(value) & set("\t\n\r"):
        return value
    for letter, meant in (("\\", "\\"), ('"', '"'), *ESCAPES.items()):
        value = value.replace(meant, f"\\{letter}")
    return f'"{value}"'


def _fields(text: str) -> list[str]:
    r"""Split the fields of a fact: at tabs if there are any, else at blanks outside of records' brackets. A field in double
    quotes may contain both; \n, \t, \r, \" and \\ in it are escapes as in a program.

    >>> _fields('"Ann Lee" [1, [2, nil]] 7'), _fields('Ann Lee\t"a\\tb"\t')
    (['Ann Lee', '[1, [2, nil]]', '7'], ['Ann Lee', 'a\tb', ''])
    >>> _fields("$Cons(1, [2, $Nil]) (7")
    ['$Cons(1, [2, $Nil])', '(7']
    """
    if "\t" in text:
        return [_unquoted(field) for field in text.split("\t")]
    fields, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        field, at = _quoted_field(text, at + 1) if text[at] == '"' else _unquoted_field(text, at)
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


def _quoted_field(text: str, at: int) -> tuple[str, int]:
    """The field up to a closing quote, and its end. at: the position after the opening quote."""
    made = []
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            made.append(ESCAPES.get(text[at], text[at]))
        else:
            made.append(text[at])
        at += 1
    if at == len(text):
        raise BadInput(f"a quote is not closed: {abbreviated(text)}")
    return "".join(made), at + 1


def _unquoted_field(text: str, at: int) -> tuple[str, int]:
    """The field up to a blank outside of brackets, and its end. Branches have round brackets. at: its position."""
    begin, depth, within = at, 0, False
    opening, closing = ("[(", "])") if text.startswith("$", at) else ("[", "]")
    while at < len(text) and (depth > 0 or within or not text[at].isspace()):
        if depth and text[at] == '"' and text[at - 1] != "\\":
            within = not within
        elif not within:
            depth += (text[at] in opening) - (text[at] in closing and depth > 0)
        at += 1
    return text[begin:at], at


def _python(field: str, kind: Kind):
    """The Python value of a field; records are parsed as in files."""
    return field if kind in (Kind.SYMBOL, Kind.RECORD) else to_value(of_text(field, kind), kind)


def _message(error: Exception) -> str:
    """Return the text of an error."""
    if isinstance(error, BadInput):
        return str(error.in_shell())
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error)
