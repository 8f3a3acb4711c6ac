"""`semi-naive run PROGRAM -t explain`: an interactive prompt that prints proofs of a run's tuples.

The commands and the format of answers are Soufflé's, except for `whynot`. On a terminal, prompts are printed, and the user is
asked for missing arguments (which rule, which value). `-t explore` shows a whole proof, a line for each tuple, on a terminal in
a pager.
"""

import re
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, TextIO

import click

from semi_naive.cli.failures import message
from semi_naive.io.values.bits import bits_of_text, to_value
from semi_naive.language.errors import ProgramError
from semi_naive.provenance.proofs import Proof, atom
from semi_naive.provenance.search import SearchTooLarge
from semi_naive.provenance.tree import Tree, quoted, tree_of
from semi_naive.provenance.why import Why
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Kind, Var
from semi_naive.running.results.python_values import nested_values
from semi_naive.session.query import Query, parse_atom, parse_fact, query_of

DEFAULT_DEPTH = 4  # levels of a proof that are printed by default
TUPLE = '<relation>("<string element1>", <number element2>, ...)'
HELP = f"""
setdepth <depth>: show so many levels of a proof, {DEFAULT_DEPTH} at first; with -t explore all
explain {TUPLE}: show why a tuple is there, by a proof of least height
subproof <relation>(<label>): show a part of a proof that was cut off at that depth
explainnegation {TUPLE}: choose a rule and values, and see what of it holds
explainnegation {TUPLE} <rule number> [<variable>=<value> ...]: the same without questions
whynot {TUPLE}: show of each rule the first part that nothing fits
rule <relation> [<rule number>]: show a rule, or all rules of a relation
measure <relation>: show how many tuples are in proofs of some of its tuples
query <relation>(<element1>, <variable>, ...), ...: find values of variables; with ; the next ones, with . no more
format <json|proof>: show proofs in this form
output [<file>]: write proofs to a file, or here again
exit: end (so do q and quit)
"""
WRONG = ValueError, KeyError, ProgramError, EvaluationError, OSError  # errors after which the next command is read
GIVEN = re.compile(r'\s*([?\w]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,]+)\s*,?')


def explain(result, whole: bool = False) -> None:
    """Answer commands from standard input about a result until it ends. whole: print proofs whole, as `-t explore` does."""
    Prompt(result.proofs, sys.stdin, sys.stdin.isatty(), whole).run()


class Prompt:
    """Executes the commands that are read from one stream; `do_NAME` is the command of this name.

    asks: True if the stream is a terminal, so that prompts are printed.
    whole: show whole proofs, in a pager.
    """

    def __init__(self, why: Why, stream: TextIO, asks: bool, whole: bool = False):
        self.why, self.stream, self.asks, self.whole = why, stream, asks, whole
        self.depth: int | None = None if whole else DEFAULT_DEPTH  # levels of a proof that are printed; None: all
        self.json, self.file = False, ""  # print proofs as JSON, and to a file ("": to standard output)
        self.subproofs: list[Proof] = []  # the proofs that were cut off, by label
        self.labels: dict[tuple[str, tuple], int] = {}  # the label of each, by relation and tuple

    def run(self) -> None:
        """Read and execute commands until the end."""
        self._prompt("Explain is invoked.\n")
        while (line := self._read_line("Enter command > ")) is not None:
            command, _, rest = line.strip().partition(" ")
            if command in ("exit", "q", "quit"):
                break
            if command:
                self._answer(command, rest.strip())
            sys.stdout.flush()
        self._prompt("Exiting explain\n")

    def _answer(self, command: str, rest: str) -> None:
        """Execute a command, and print its errors. rest: the arguments."""
        do = getattr(self, f"do_{command}", None)
        try:
            click.echo(HELP) if do is None or not command.isalpha() else do(rest)
        except WRONG as error:
            click.echo(message(error))

    def _prompt(self, text: str) -> None:
        """Print a text that only a user at a terminal needs."""
        if self.asks:
            click.echo(text, nl=False)

    def _read_line(self, text: str) -> str | None:
        """Print a prompt, and return the next line without its end; None at the end of the stream."""
        self._prompt(text)
        line = self.stream.readline()
        return line.rstrip("\r\n") if line else None

    # -- commands

    def do_setdepth(self, argument: str) -> None:
        if not argument:
            raise ValueError("Usage: setdepth <depth>")
        if not argument.isdecimal():
            raise ValueError(f"<{argument}> is not a valid depth")
        self.depth = int(argument)
        self._prompt(f"Depth is now {self.depth}\n")

    def do_explain(self, argument: str) -> None:
        """Print a proof of a tuple."""
        relation_and_row = self._relation_and_row("explain", argument)
        if relation_and_row is None:
            return self._show(Tree("Relation not found"))
        name, row = relation_and_row
        try:
            self._show_proof(self.why.why(name, row))
        except SearchTooLarge:  # a ValueError, which says nothing about the tuple
            raise
        except ValueError as error:
            self._show(Tree("Tuple not found" if self.why.absent(name, row) else str(error)))

    def do_subproof(self, argument: str) -> None:
        """Print a proof that was cut off."""
        label = re.fullmatch(r"[^(]+\(\s*([0-9]+)\s*\)", argument)
        if label is None:
            raise ValueError("Usage: subproof relation_name(<label>)")
        number = int(label[1])
        if number >= len(self.subproofs):
            return self._show(Tree("Subproof not found"))
        self._show_proof(self.subproofs[number])

    def do_explainnegation(self, arguments: str) -> None:
        """Print which literals of a rule hold for an absent tuple. If the arguments name no rule, ask for its number and for
        values of its variables."""
        text, number, given = _split_arguments(arguments)
        found = self._relation_and_row("explainnegation", text)
        rules = [] if found is None else self.why.rules(found[0])
        if found is None or not rules:
            return click.echo("The tuple would be an input fact!")
        name, row = found
        if ask := not number:
            self._prompt("".join(f"{rule.number}: {rule.text}\n\n" for rule in rules))
            number = self._read_line("Pick a rule number: ") or ""
        if not self.why.absent(name, row):
            return click.echo("The tuple exists, cannot explain negation of it!")
        if not number.isdecimal() or not 1 <= int(number) <= len(rules):
            raise ValueError(f"{name} has the rules 1 to {len(rules)}: {number!r} is none of them")
        variables = {variable.name: variable for variable in self.why.variables(name, int(number))}
        if ask:
            given = {variable: self._read_line(f"Pick a value for {variable}: ") or "" for variable in variables}
        if unknown := given.keys() - variables.keys():
            raise ValueError(
                f"the rule has no variable {', '.join(sorted(unknown))}; it has {', '.join(variables) or 'none'} to choose"
            )
        values = {variable: _value(text, variables[variable]) for variable, text in given.items()}
        literals = self.why.examined(name, row, int(number), values)
        self._show(Tree(atom(name, row), int(number), [Tree(f"{part} {'✓' if holds else 'x'}") for part, holds in literals]))

    def do_whynot(self, rest: str) -> None:
        found = self._relation_and_row("whynot", rest)
        click.echo("Relation not found" if found is None else str(self.why.why_not(*found)))

    def do_rule(self, arguments: str) -> None:
        """Print the rules of a relation."""
        name, *number = arguments.split()[:2] or [""]
        if not name or number and not number[0].isdecimal():
            raise ValueError("Usage: rule <relation name> [<rule number>]")
        found = [rule for rule in self.why.rules(name) if not number or rule.number == int(number[0])]
        click.echo("\n".join(rule.text if number else f"{rule.number}: {rule.text}" for rule in found) or "Rule not found")

    def do_measure(self, relation: str) -> None:
        """Print the sizes of proofs of some tuples."""
        if not relation:
            raise ValueError("Usage: measure <relation name>")
        if relation not in self.why.program.relations:
            return click.echo("No relation found")
        rows = self.why.sample(relation, 10)
        for row in rows:
            proof = self.why.why(relation, row)
            click.echo(f"Tuples expanded: {proof.size}, height: {proof.height}")
        click.echo(f"total: {len(rows)}")

    def do_output(self, path: str) -> None:
        """Write the following answers to a file, or none."""
        if path:
            open(path, "w", encoding="utf-8").close()  # empties it; fails now if it cannot be written
        self.file = path

    def do_format(self, name: str) -> None:
        if name not in ("json", "proof"):
            raise ValueError("Usage: format <json|proof>")
        self.json = name == "json"

    def do_query(self, argument: str) -> None:
        """Print the solutions of a conjunction of atoms."""
        atoms = _split_atoms(argument)
        if not atoms:
            form = "<relation1>(<element1>, <element2>, ...), <relation2>(<element1>, <element2>, ...), ..."
            raise ValueError(f"Usage: query {form}")
        queries = [query_of(parse_atom(text), self.why.program.relations, self.why.types, self.why.values) for text in atoms]
        for text, query in zip(atoms, queries, strict=True):
            if not query.variables and not query.search(self.why.tables[query.relation.name]).shape[1]:
                return click.echo(f"false.\nTuple {text} does not exist")
        if not any(query.variables for query in queries):
            return click.echo("true.")
        found = False
        for solution in self._solutions(queries):
            if found and not self._wants_more():
                return None
            found = True
            click.echo(", ".join(f"{name} = {value}" for name, value in solution.items()))
        return None if found else click.echo("false.")

    # -- queries

    def _solutions(self, queries: list[Query]) -> Iterator[dict[str, Any]]:
        """Yield the values of variables that satisfy all queries, in the order of each relation's tuples."""
        answers: list[list[dict[str, Any]]] = []  # of each query
        for query in queries:
            if not query.variables:
                answers.append([{}])
                continue
            columns = zip(query.search(self.why.tables[query.relation.name]), query.variables.values(), strict=False)
            values = [nested_values(column, type_, self.why.types, self.why.values) for column, type_ in columns]
            answers.append([dict(zip(query.variables, row, strict=True)) for row in zip(*values, strict=True)])
        for combination in product(*answers):
            solution: dict[str, Any] = {}
            if all(solution.setdefault(name, value) == value for answer in combination for name, value in answer.items()):
                yield solution

    def _wants_more(self) -> bool:
        """True if the user asks for another solution."""
        while (line := self._read_line("")) is not None:
            if line.strip() in (";", "."):
                return line.strip() == ";"
            click.echo("use ; to find next solution, use . to break from current query")
        return False

    # -- in and out

    def _relation_and_row(self, command: str, text: str) -> tuple[str, tuple] | None:
        """Parse a tuple, the argument of a command. Return (relation, values), None if the relation does not exist."""
        if not re.match(r"[^()]+\(.*\)\s*\.?\s*$", text, re.DOTALL):
            raise ValueError(f"Usage: {command} {TUPLE}")
        name = text.split("(")[0].strip()
        relation = self.why.program.relations.get(name)
        if relation is None:
            return None
        _, row = parse_fact(text)
        if len(row) != relation.arity:
            raise ValueError(f"Relation {name} has arity {relation.arity}, but {len(row)} argument(s) were given")
        return name, row

    def _show_proof(self, proof: Proof) -> None:
        """Print a proof, cut off at the depth."""
        if self.whole and not self.json:
            return self._write(proof.to_text(self.depth))
        self._show(tree_of(proof, sys.maxsize if self.depth is None else self.depth, self._label))

    def _label(self, proof: Proof) -> int:
        """Return the label of a proof that is cut off, for `subproof`."""
        key = proof.relation, proof.tuple
        if key not in self.labels:
            self.labels[key] = len(self.subproofs)
            self.subproofs.append(proof)
        return self.labels[key]

    def _show(self, tree: Tree) -> None:
        """Print a tree in the chosen format."""
        if not self.json:
            return self._write(tree.to_text())
        rules = [rule for name in sorted(self.why.program.relations) for rule in self.why.rules(name)]
        listed = ",\n".join(f'\t{{ "rule-number": "(R{rule.number})", "rule": {quoted(rule.text)}}}' for rule in rules)
        self._write(f'{{ "proof":\n{tree.to_json()},"rules": [\n{listed}\n]\n}}')

    def _write(self, text: str) -> None:
        """Write a text to the output: a pager, a file, or standard output."""
        if self.whole and self.asks and not self.file:
            return click.echo_via_pager(f"{text}\n")
        if not self.file:
            return click.echo(text)
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def _split_arguments(text: str) -> tuple[str, str, dict[str, str]]:
    """Split the arguments of explainnegation into a tuple, the number of a rule ("": none), and values of variables.

    >>> _split_arguments('path("a", "x (1") 2 y="b", z = 3')
    ('path("a", "x (1")', '2', {'y': '"b"', 'z': '3'})
    """
    found = re.fullmatch(r'((?:[^"]|"(?:[^"\\]|\\.)*")*?\))\s+([0-9]+)\b(.*)', text, re.DOTALL)
    return (found[1], found[2], dict(GIVEN.findall(found[3]))) if found else (text, "", {})


def _value(text: str, variable: Var):
    """Return the value that the user gives a variable; a symbol may be in quotes."""
    if variable.kind != Kind.SYMBOL:
        return to_value(bits_of_text(text, variable.kind), variable.kind)
    return parse_fact(f"v({text})")[1][0] if text.startswith('"') else text


def _split_atoms(text: str) -> list[str]:
    """Split the text of a query into its atoms.

    >>> _split_atoms('edge(x, "a)b"), path([x, 1], y).')
    ['edge(x, "a)b")', 'path([x, 1], y)']
    """
    found, depth, begin, in_quotes = [], 0, 0, False
    for position, letter in enumerate(text):
        if letter == '"' and text[position - 1 : position] != "\\":
            in_quotes = not in_quotes
        depth += 0 if in_quotes else (letter == "(") - (letter == ")")
        if letter == ")" and not depth and not in_quotes:
            found.append(text[begin : position + 1].strip(" ,"))
            begin = position + 1
    return found
