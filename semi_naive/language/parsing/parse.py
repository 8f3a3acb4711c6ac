"""Parse the text of a program into a syntax tree. The grammar is in grammar.lark, and `build` makes the nodes of its rules."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from semi_naive.language.errors import ERROR, WARNING, Problem, ProgramError
from semi_naive.language.origins import Text, read_text
from semi_naive.language.parsing.build import StatementBuilder
from semi_naive.language.parsing.build_terms import TermBuilder
from semi_naive.language.parsing.preprocess import preprocess
from semi_naive.language.parsing.reduce import NameBuilder, ParseState, Reduce
from semi_naive.language.parsing.syntax_errors import STATEMENTS, syntax_problem
from semi_naive.language.parsing.tables import ParserRule, Tables, shown, tables
from semi_naive.language.parsing.tokens import Token, tokens_of
from semi_naive.language.syntax import Pragma, SourceProgram
from semi_naive.sandbox import Sandbox

NOTHING: Mapping[str, object] = MappingProxyType({})
MAX_SYNTAX_ERRORS = 20  # syntax errors after which parsing stops
MAX_COPIED_STACK = 3000  # depth of the parser's stack above which it is not copied for each token


def parse_file(
    path: str | os.PathLike,
    include_dirs: Sequence = (),
    defines: Mapping = NOTHING,
    sandbox: Sandbox | None = None,
    legacy: bool = False,
) -> SourceProgram:
    """Return the syntax tree of a file. See `parse`."""
    return parse(read_text(path), os.fspath(path), include_dirs, defines, sandbox, legacy)


def parse(
    text: str, file: str = "<program>", include_dirs: Sequence = (), defines: Mapping = NOTHING, sandbox: Sandbox | None = None,
    legacy: bool = False,
) -> SourceProgram:  # fmt: skip
    """Return the syntax tree of a program. All errors are reported in one `ProgramError`.

    file: its name in messages, whose folder is searched for its own includes before `include_dirs`.
    defines: macros.
    sandbox: the folder that contains all includes.
    legacy: an old program, see `SourceProgram`."""
    source, errors = parse_all(text, file, include_dirs, defines, sandbox, legacy)
    if errors:
        raise ProgramError(errors + source.warnings, source.texts)
    return source


def parse_all(
    text: str, file: str = "<program>", include_dirs: Sequence = (), defines: Mapping = NOTHING, sandbox: Sandbox | None = None,
    legacy: bool = False,
) -> tuple[SourceProgram, list[Problem]]:  # fmt: skip
    """Return the statements that can be parsed, and the errors of the others. See `parse`.

    >>> source, [error] = parse_all(".decl a(x: number)  a(1.  a(2).")
    >>> len(source.statements), error.span.column
    (2, 24)
    """
    program = preprocess(text, file, include_dirs, defines, sandbox)
    statements, problems = _parse_statements(program.text)
    warnings = [problem for problem in problems if problem.severity == WARNING and not legacy]
    errors = program.problems + [problem for problem in problems if problem.severity == ERROR]
    pragmas = (node.key for node in statements if isinstance(node, Pragma))
    return SourceProgram(statements, program.texts, warnings, legacy or "legacy" in pragmas), errors


class _Unexpected(Exception):
    """Raised for a token that the parser cannot accept. stacks: the parser's stacks of states and of values before the token;
    empty if they were too deep to copy."""

    def __init__(self, stacks: tuple):
        self.stacks = stacks


class Parser:
    """The LALR parser of one text, with its stacks: `stack` of states, `values` of tokens and reduced values."""

    def __init__(self):
        self.tables, self.state, self.reductions, self.passing = _parser()
        self.stack, self.values = [self.tables.start], []
        self.problems = self.state.begin()

    def feed(self, token: Token) -> list | None:
        """Reduce, and shift a token. After the last token, return the statements. Raises _Unexpected."""
        states, passing, stack, values, kind = self.tables.states, self.passing, self.stack, self.values, token.type
        before: tuple[Sequence, ...] = ()  # copies of the stacks, made before the first reduction
        while True:  # half of the time of a parse
            action = states[stack[-1]].get(kind)
            if action is None:
                raise _Unexpected(before or (stack, values))
            if action >= 0:
                stack.append(action)
                values.append(token)
                return None
            if not before:
                before = (stack.copy(), values.copy()) if len(stack) <= MAX_COPIED_STACK else ((), ())
            size, reduce, symbol = self.reductions[~action]
            parts = values[-size:] if size else []
            if size:
                del stack[-size:], values[-size:]
            values.append(reduce(parts))
            next_states = states[stack[-1]]
            state = next_states[symbol]
            while (passed := passing.get(states[state].get(kind, 0))) is not None:  # 11 rules from an operand to an argument
                state = next_states[passed]
            stack.append(state)
            if kind == "$END" and state == self.tables.end:
                return values[-1]

    def accepts(self) -> set[str]:
        """Return the terminals that may come next."""
        kinds = self.tables.states[self.stack[-1]]
        return {kind for kind in kinds if kind.isupper() and self._shifts(kind)}  # rules have names in small letters

    def _shifts(self, kind: str) -> bool:
        """True if reductions lead to a state that shifts a terminal."""
        states, stack = self.tables.states, self.stack.copy()
        while (action := states[stack[-1]].get(kind)) is not None:
            if action >= 0:
                return True
            rule = self.tables.reductions[~action]
            del stack[len(stack) - rule.size :]
            stack.append(states[stack[-1]][rule.symbol])
        return False


@cache
def _parser() -> tuple[Tables, ParseState, list[tuple[int, Callable, str]], dict[int, str]]:
    """Return (the tables, the state of the builders, (size, function, symbol) of each reduction, the symbol of each reduction
    that only passes one value, by its action)."""
    parser_tables, state = tables(), ParseState()
    builders = [builder(state) for builder in (StatementBuilder, TermBuilder, NameBuilder)]
    reductions = [(rule.size, _reduction(rule, builders), rule.symbol) for rule in parser_tables.reductions]
    passing = {~number: rule.symbol for number, rule in enumerate(parser_tables.reductions) if rule.passing and rule.size == 1}
    return parser_tables, state, reductions, passing


def _reduction(rule: ParserRule, builders: Sequence[Reduce]) -> Callable[[list], Any]:
    """Return the function from the values of a grammar rule's symbols to the value of the rule."""
    if not rule.method:
        return Repeated
    # No builder has a method if the rule only passes a value.
    methods = [getattr(builder, rule.method) for builder in builders if hasattr(builder, rule.method)]
    reduce = (lambda parts: parts[0] if len(parts) == 1 else methods[0](parts)) if rule.passing else methods[0]
    return (lambda parts: reduce(_spread(parts))) if rule.repeats else reduce


class Repeated(tuple):
    """The value of a repetition: (value of the repetition so far, its last part). It is immutable, as the parser returns to
    earlier stacks after an error."""


def _spread(parts: list) -> list:
    """Return the values of a rule's symbols, with the parts of each repetition in its place."""
    spread, unspread = [], parts[::-1]
    while unspread:
        value = unspread.pop()
        if isinstance(value, Repeated):
            unspread += reversed(value)
        else:
            spread.append(value)
    return spread


def shown_terminal(terminal: str) -> str:
    """Return a terminal of the grammar as a message shows it.

    >>> shown_terminal("LPAR"), shown_terminal("DECL")
    ('(', '.decl')
    """
    return shown(tables().terminals[terminal][0])


def lexed(text: Text) -> list[Token]:
    """Return the tokens of a text."""
    parser_tables = tables()
    return list(tokens_of(text, re.compile(parser_tables.pattern), parser_tables.words, parser_tables.ignored))


@cache
def words() -> frozenset[str]:
    """Return the keywords of the grammar, which cannot be names of relations."""
    return frozenset(text for text, is_word in tables().terminals.values() if is_word) | {"ordered"}


def _parse_statements(text: Text) -> tuple[list, list[Problem]]:
    """Return (the statements, the syntax errors and warnings). After an error, parsing continues with the next statement."""
    whole, parser = text.whole(), Parser()
    problems = parser.problems
    if not whole.strip():
        return [], problems
    end = len(whole)
    tokens = [*_without_annotations(lexed(text)), Token("", "$END", end, end, text.between(end, end))]
    position, statements = 0, None
    while position < len(tokens):
        try:
            statements = parser.feed(tokens[position])
            position += 1
        except _Unexpected as error:
            stack, values = error.stacks
            if not stack:  # too deep to be copied, so parsing cannot continue
                hint = "name a part of the expression in brackets: x = …, or make it a relation of its own"
                problems.append(Problem("syntax error in brackets that are nested too deep", tokens[position].span, hint))
                break
            parser.stack, parser.values = stack, values  # undo the reductions that preceded the wrong token
            problems.append(syntax_problem(tokens, position, parser.accepts(), parser.values, shown_terminal, whole))
            parser.state.head_aggregates.clear()
            errors = sum(problem.severity == ERROR for problem in problems)
            position = _recovered(parser, tokens, position) if errors < MAX_SYNTAX_ERRORS else len(tokens)
    return statements or [], problems


def _without_annotations(tokens: Iterable[Token]) -> list[Token]:
    """Remove annotations, @[…] and @![…], which may stand nearly anywhere, contain any tokens, and have no effect."""
    kept: list[Token] = []
    depth = 0
    for token in tokens:
        if depth:
            depth += (token.type == "LSQB") - (token.type == "RSQB")
        elif token.type == "LSQB" and [last.type for last in kept[-2:]][-1:] == ["AT"]:
            kept.pop()
            depth = 1
        elif token.type == "LSQB" and [last.type for last in kept[-2:]] == ["AT", "BANG"]:
            del kept[-2:]
            depth = 1
        else:
            kept.append(token)
    return kept


def _recovered(parser: Parser, tokens: list[Token], at: int) -> int:
    """Drop the unfinished statement, and return the position of the token at which parsing continues: unwind to a state in
    which a statement can begin, and skip to a token that may begin one. at: the position of the unexpected token."""
    braces = 0  # those that the dropped tokens have opened
    while "DECL" not in (accepted := parser.accepts()):
        parser.stack.pop()
        dropped = parser.values.pop()
        braces += isinstance(dropped, Token) and dropped.type == "LBRACE"
    for index in range(at, len(tokens) - 1):
        kind = tokens[index].type
        braces += kind == "LBRACE"
        if kind in STATEMENTS and kind in accepted:
            return index
        if kind == "RBRACE":
            if not braces and kind in accepted:
                return index
            braces = max(0, braces - 1)
        elif kind == "DOT" and not _qualifies(tokens, index):
            return index + 1
    return max(at + 1, len(tokens) - 1)


def _qualifies(tokens: list[Token], dot: int) -> bool:
    """True if a dot is part of a qualified name, rather than the end of a statement."""
    return tokens[dot + 1].type == "IDENT" and tokens[dot + 1].start == tokens[dot].end
