"""`semi-naive session`: read transactions, rules and queries line by line, and print the changes.

A change of facts outside of begin and commit is a transaction of its own.
"""

import os
import re
import sys
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TextIO

import click
import numpy as np

from semi_naive.cli.failures import message
from semi_naive.cli.fields import (
    VALUES,
    LineStyle,
    parameter_values,
    python_value,
    relation_and_values,
    split_fields,
    split_word,
)
from semi_naive.host.limits import LimitExceeded
from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.patterns import match_files
from semi_naive.io.results.sorted_rows import Blocks, RelationRows
from semi_naive.io.results.writing import lines
from semi_naive.io.values.bits import BUILT_IN, abbreviated
from semi_naive.language.errors import ProgramError
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Relation

if TYPE_CHECKING:
    from semi_naive.session.session import Session
    from semi_naive.session.transaction import Transaction

PROMPT, INSIDE = "> ", "… "
USAGE = {
    "begin": "", "insert": "R v…", "delete": "R v…", "upsert": "R(KEY, …) v…", "clear": "R", "load": "R FILE",
    "unload": "R FILE", "commit": "", "abort": "", "query": "BODY. [NAME=VALUE…]", "why": "R v…", "why_not": "R v…",
    "explain": "[R]", "declare": "R(ATTRIBUTE: TYPE, …)", "register": "NAME [share=true|false] [add=true] RULES",
    "unregister": "NAME", "subscribe": "R [NAME=VALUE…]", "unsubscribe": "R [NAME=VALUE…]", "quit": "",
    "watch": "PATTERN [edges=R] [directed=true] [symmetry=false] [homomorphisms=true] [triangles=true] [count=true]",
}  # fmt: skip
COMMANDS = ", ".join(f"{command} {arguments}".strip() for command, arguments in USAGE.items())
_FLAGS = {"true": True, "false": False}
_PATTERN_OPTIONS = ("edges", "directed", "symmetry", "homomorphisms", "triangles", "count")
_RULES_OPTION = re.compile(r"(share|add)=(true|false)(?:\s+|$)")
EXPECTED = (
    ValueError, KeyError, OSError, NotImplementedError, ProgramError, EvaluationError, LimitExceeded,
)  # fmt: skip  # errors of a line, which do not end an interactive session


def run_session(program: str, state: str | None, given: dict) -> None:
    """Read commands from standard input until it ends. state, given: see `open_session`."""
    if program == "-":
        raise BadInput("the program cannot be read from standard input", hint="commands are: name a file")
    with open_session(program, state, given) as session:
        Shell(session, sys.stdin, sys.stdin.isatty()).run()


def open_session(program: str, state: str | None, given: dict, retain: int = 0) -> "Session":
    """Open the session of a program in a file. state: the directory that makes it durable, if any; given: the other options of
    the command, by name; retain: see `Program.session`."""
    from semi_naive import Config
    from semi_naive.cli.program import FactOptions, Origin
    from semi_naive.cli.run import check_inputs, print_warnings, reading_of

    facts = FactOptions.given(given["facts"], given["header"])
    check_inputs(facts.folder or ".", given["include_dirs"])
    checked = Origin(program, facts=facts).checked(reading_of(given))
    print_warnings(checked, checked.warnings)
    config = Config().with_options(given["options"])
    session = checked.session(facts.of_session(checked), path=state, retain=retain, config=config)
    if session.derived_anew:
        click.echo(f"semi-naive: derived anew by other rules: {', '.join(session.derived_anew)}", err=True)
    return session


class Shell:
    """Executes the commands for one session, read from a stream. An error ends it unless it is interactive. At the end an open
    transaction is rolled back.
    """

    def __init__(self, session: "Session", stream: TextIO, interactive: bool):
        self.session, self.stream, self.interactive = session, stream, interactive
        self.transaction: Transaction | None = None  # the open one
        self.lines = self._lines()  # from which `_register` reads, too, as rules may take several lines
        self.subscriptions: dict[str, Any] = {}  # by the text "relation {parameter: value, …}"

    def run(self) -> None:
        """Read and execute commands until the end."""
        try:
            for number, line in self.lines:
                try:
                    if self._execute(line.rstrip("\r\n").lstrip()):
                        return
                except EXPECTED as error:
                    wrong = BadInput(message(error), "<stdin>", number)
                    if not self.interactive:
                        raise wrong from error
                    click.echo(f"semi-naive: {wrong}", err=True)
            if self.transaction is not None:
                text = "the input ends inside of a transaction, which is rolled back"
                raise BadInput(text, "<stdin>", hint="end it with commit")
        finally:
            self._abort()

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Yield (number, line) of the stream, after a prompt on a terminal."""
        number = 0
        while True:
            if self.interactive:
                click.echo(PROMPT if self.transaction is None else INSIDE, nl=False)
            if not (line := self.stream.readline()):
                return
            number += 1
            yield number, line.removeprefix("\ufeff") if number == 1 else line

    def _execute(self, line: str) -> bool:
        """Execute a line's command. Return True if it is `quit`."""
        if not line.strip() or line.startswith(("#", "//")):
            return False
        command, rest = split_word(line)
        if command == "quit":
            return True
        if command not in USAGE:
            raise BadInput(f"{abbreviated(command)} is no command", hint=f"commands are {COMMANDS}")
        arguments, execute = USAGE[command], getattr(self, f"_{command}")
        has_required = bool(arguments) and not arguments.startswith("[")
        if has_required and not rest.strip() or not arguments and rest.strip():
            raise BadInput(f"expected {command} {arguments}".rstrip())
        if arguments:
            execute(rest)
        else:
            execute()
        return False

    # -- commands

    def _begin(self) -> None:
        if self.transaction is not None:
            raise BadInput("a transaction is open already", hint="commit or abort it")
        self.transaction = self.session.transaction().begin()

    def _commit(self) -> None:
        """Commit the open transaction, and print its changes."""
        transaction, self.transaction = self._open_transaction(), None
        transaction.commit()
        self._print(transaction)

    def _abort(self) -> None:
        """Roll back the open transaction, if any."""
        if self.transaction is not None:
            transaction, self.transaction = self.transaction, None
            transaction.abort()

    def _open_transaction(self) -> "Transaction":
        """Return the open transaction. Raises BadInput if there is none."""
        if self.transaction is None:
            raise BadInput("no transaction is open", hint="begin one with begin")
        return self.transaction

    def _insert(self, rest: str) -> None:
        self._change("insert", *self._relation_and_fact(rest))

    def _delete(self, rest: str) -> None:
        self._change("delete", *self._relation_and_fact(rest))

    def _upsert(self, rest: str) -> None:
        """Insert a fact in place of those with its values of some attributes, the key."""
        found = re.fullmatch(r"([^\s(]+)\s*\(([^()]*)\)\s?(.*)", rest, re.DOTALL)
        if not found or not found[2].strip():
            raise BadInput(f"expected upsert {USAGE['upsert']}", hint="the attributes in brackets are the key")
        key = [name.strip() for name in found[2].split(",")]
        self._change("upsert", *self._relation_and_fact(f"{found[1]} {found[3]}"), key)

    def _clear(self, rest: str) -> None:
        self._change("clear", rest.strip())

    def _load(self, rest: str) -> None:
        self._change("insert", *self._relation_and_path(rest, "load"))

    def _unload(self, rest: str) -> None:
        self._change("delete", *self._relation_and_path(rest, "unload"))

    def _change(self, operation: str, relation: str, *given) -> None:
        """Change facts in the open transaction, else in a transaction of their own, whose changes are printed. operation: the
        method of a transaction; given: its arguments after the relation."""
        if self.transaction is not None:
            getattr(self.transaction, operation)(relation, *given)
        else:
            self._print(getattr(self.session, operation)(relation, *given))

    def _query(self, rest: str) -> None:
        """Print the answers of a query."""
        found = re.fullmatch(rf"(.*\.)({VALUES})\s*", rest, re.DOTALL)
        body, values = found.groups() if found else (rest, "")
        answer = self.session.query(body, **parameter_values(values))
        for line in self._lines_of_tuples(answer.relation, answer.encoded()):
            click.echo(line)

    def _why(self, rest: str) -> None:
        name, (row,) = self._relation_and_fact(rest)
        click.echo(str(self.session.why(name, row)))

    def _why_not(self, rest: str) -> None:
        """Print what each rule for a tuple lacks."""
        name, (row,) = self._relation_and_fact(rest)
        click.echo(str(self.session.why_not(name, row)))

    def _explain(self, rest: str) -> None:
        """Print the plans of the rules for a relation, or of all rules."""
        click.echo(self.session.explain(rest.strip() or None), nl=False)

    def _declare(self, rest: str) -> None:
        """Add a relation of facts to the session."""
        self.session.declare(rest)

    def _register(self, rest: str) -> None:
        """Register rules for a relation: the text after its name, or if there is none, the lines up to an empty one."""
        name, rules = split_word(rest.strip())
        options = {}
        while match := _RULES_OPTION.match(rules):
            options[match[1]], rules = match[2] == "true", rules[match.end() :]
        if not rules:
            following = (line.rstrip("\r\n") for _, line in self.lines)
            rules = "\n".join(takewhile(bool, following))
        self.session.register(name, rules, **options)

    def _unregister(self, rest: str) -> None:
        self.session.unregister(rest.strip())

    def _subscribe(self, rest: str) -> None:
        """Include a relation, or one of registered rules with some values of its parameters, in the changes that each
        transaction prints."""
        name, values = relation_and_values(rest)
        if (key := f"{name} {values}") in self.subscriptions:
            raise BadInput(f"{name} is subscribed to already")
        self.subscriptions[key] = self.session.subscribe(name, lambda changes, epoch: None, **values)

    def _unsubscribe(self, rest: str) -> None:
        """Cancel the subscription of a relation with the same values."""
        name, values = relation_and_values(rest)
        if (key := f"{name} {values}") not in self.subscriptions:
            raise BadInput(f"{name} is not subscribed to", hint=f"subscribed are {', '.join(self.subscriptions) or 'none'}")
        self.subscriptions.pop(key).cancel()

    def _watch(self, rest: str) -> None:
        """Include the matches of a pattern that appear and disappear, or their number, in the changes that are printed."""
        pattern, text = split_word(rest)
        given = dict(field.partition("=")[::2] for field in split_fields(text))
        options: dict[str, Any] = {name: value if name == "edges" else _FLAGS.get(value) for name, value in given.items()}
        if given.keys() - set(_PATTERN_OPTIONS) or None in options.values():
            raise BadInput(f"expected watch {USAGE['watch']}")
        subscription = self.session.watch(pattern, lambda changes, epoch: None, **options)
        if (key := f"{subscription.relation} {{}}") in self.subscriptions:  # as by `_subscribe` without values
            subscription.cancel()
            raise BadInput(f"{pattern} is watched already")
        self.subscriptions[key] = subscription

    # -- in

    def _relation_and_fact(self, text: str) -> tuple[str, list[tuple]]:
        """Parse `R v…`. Return (the relation, [the fact as Python values])."""
        name, text = split_word(text)
        relation = self.session.relations[self.session.check_known(name)]
        fields = [] if not relation.arity and text.strip() == "()" else split_fields(text)
        if len(fields) != relation.arity:
            names = ", ".join(f"{attribute}: {type_.name}" for attribute, type_ in relation.attributes)
            hint = "fields are separated by blanks; one that has some is in double quotes"
            raise BadInput(
                f"{name}({names}) has {quantity(relation.arity, 'attribute')}, found {quantity(len(fields), 'field')}",
                hint=hint,
            )
        return name, [
            tuple(python_value(field, type_.kind) for field, (_, type_) in zip(fields, relation.attributes, strict=True))
        ]

    def _relation_and_path(self, text: str, command: str) -> tuple[str, str]:
        """Parse `R FILE`, the arguments of a command. Raises BadInput if the file does not exist."""
        name, text = split_word(text)
        path = split_fields(text)
        if len(path) != 1:
            raise BadInput(f"expected {command} {USAGE[command]}", hint="a name with blanks is in double quotes")
        if "://" not in path[0] and match_files(path[0]) is None and not os.path.exists(path[0]):
            raise BadInput("no such file", path[0], hint=f"looked from {os.getcwd()}")
        return name, path[0]

    # -- out

    def _print(self, transaction: "Transaction") -> None:
        """Print the changes of a committed transaction: deletions (sign -1) before insertions."""
        for name, changes in transaction.changes.items():
            relation, columns = self.session.registry.relation(name), changes.encoded()
            for sign in (-1, 1):
                for line in self._lines_of_tuples(relation, np.ascontiguousarray(columns[:-1, columns[-1] == sign])):
                    click.echo(f"{name}\t{sign:+d}\t{line}")
        sys.stdout.flush()

    def _lines_of_tuples(self, relation: Relation, columns: np.ndarray) -> list[str]:
        """Return a relation's tuples, given as columns (arity, n), as sorted lines that `split_fields` can read."""
        if not relation.arity:
            return ["()"] * columns.shape[1]
        upkeep, seams = self.session.upkeep, ["", *["\t"] * (relation.arity - 1), "\n"]
        shown = RelationRows(relation, BUILT_IN | upkeep.program.types, Blocks.of(columns), upkeep.values)
        return b"".join(lines(shown, LineStyle(readable=True), seams)).decode().split("\n")[:-1]
