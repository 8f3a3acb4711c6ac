"""`semi-naive session`: read transactions and queries line by line, and print the changes.

Commands: begin, insert R v…, delete R v…, load R FILE, unload R FILE, commit, abort, query ATOM., subscribe R, quit. A change
outside of begin and commit is a transaction of its own.
"""

import os
import sys
from collections.abc import Iterator

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
COMMANDS = "begin, insert R v…, delete R v…, load R FILE, unload R FILE, commit, abort, query ATOM., subscribe R, quit"
USAGE = {
    "insert": "insert R v…", "delete": "delete R v…", "load": "load R FILE", "unload": "unload R FILE",
    "query": "query ATOM.", "subscribe": "subscribe R",
}  # fmt: skip
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

    def run(self) -> None:
        """Read and execute commands until the end."""
        try:
            for number, line in self._lines():
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
        if command not in ("begin", "commit", "abort", *USAGE):
            raise BadInput(f"{abbreviated(command)} is no command", hint=f"commands are {COMMANDS}")
        if command in USAGE and not rest.strip() or command not in USAGE and rest.strip():
            raise BadInput(f"expected {USAGE.get(command, command)}")
        getattr(self, f"_{command}")(*[rest] * (command in USAGE))
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

    def _load(self, rest: str) -> None:
        self._change("insert", *self._file(rest, "load"))

    def _unload(self, rest: str) -> None:
        self._change("delete", *self._file(rest, "unload"))

    def _change(self, operation: str, relation: str, rows) -> None:
        """Change facts, in the open transaction or in one of their own. operation: the method of a transaction."""
        if self.open is not None:
            getattr(self.open, operation)(relation, rows)
        else:
            self._print(getattr(self.session, operation)(relation, rows))

    def _query(self, atom: str) -> None:
        """Print the answers of a query."""
        answer = self.session.query(atom)
        for line in self._texts(answer.relation, answer.encoded()):
            click.echo(line)

    def _subscribe(self, rest: str) -> None:
        """Include the relation in the changes that each transaction prints."""
        self.session.subscribe(rest.strip(), lambda changes, epoch: None)

    # -- in

    def _fact(self, text: str) -> tuple[str, list[tuple]]:
        """Parse `R v…`: the relation, and one fact."""
        name, text = _split_word(text)
        relation = self.session.relations[self.session.known(name)]
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
            raise BadInput(f"expected {USAGE[command]}", hint="a name with blanks is in double quotes")
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
