"""Text → syntax tree. The grammar is in grammar.lark, and the nodes of its rules are made in `build`."""

import io
import logging
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import lark
from lark import Lark, Token
from lark.parsers.lalr_analysis import Shift

from semi_naive.host import private
from semi_naive.language.errors import Problem, ProgramError
from semi_naive.language.origins import Text, read_text
from semi_naive.language.parsing.build import StatementBuilder
from semi_naive.language.parsing.preprocess import preprocess
from semi_naive.language.parsing.syntax_errors import STATEMENTS, syntax_problem
from semi_naive.language.syntax import Pragma, SourceProgram

log = logging.getLogger("semi_naive")

OPTIONS = {"parser": "lalr", "lexer": "basic", "keep_all_tokens": True, "maybe_placeholders": False}
NOTHING = MappingProxyType({})
MAX_SYNTAX_ERRORS = 20  # syntax errors, after which parsing stops
MAX_COPIED_STACK = 3000  # depth of the parser's stack from which it is no longer copied for each token


def parse_file(
    path, include_dirs: Sequence = (), defines: Mapping = NOTHING, sandbox=None, legacy: bool = False
) -> SourceProgram:
    """The syntax tree of a file. See `parse`."""
    return parse(read_text(path), os.fspath(path), include_dirs, defines, sandbox, legacy)


def parse(
    text: str, file: str = "<program>", include_dirs: Sequence = (), defines: Mapping = NOTHING, sandbox=None,
    legacy: bool = False,
) -> SourceProgram:  # fmt: skip
    """The syntax tree of a program. `file`: its name in messages, whose folder is searched for its own includes before
    `include_dirs`; `defines`: macros; `sandbox`: the folder that includes stay in; `legacy`: an old program, see
    `SourceProgram`. All errors are reported in one `ProgramError`.

    >>> [clause] = parse("path(x, z) :- path(x, y), edge(y, z).").statements
    >>> clause.heads[0].relation, len(clause.body.items)
    ('path', 2)
    """
    source, errors = parse_all(text, file, include_dirs, defines, sandbox, legacy)
    if errors:
        raise ProgramError(errors + source.warnings, source.texts)
    return source


def parse_all(
    text: str, file: str = "<program>", include_dirs: Sequence = (), defines: Mapping = NOTHING, sandbox=None,
    legacy: bool = False,
) -> tuple[SourceProgram, list[Problem]]:  # fmt: skip
    """The statements that can be parsed, and the errors of the others. See `parse`.

    >>> source, [error] = parse_all(".decl a(x: number)  a(1.  a(2).")
    >>> len(source.statements), error.span.column
    (2, 24)
    """
    program = preprocess(text, file, include_dirs, defines, sandbox)
    statements, problems = _parse_statements(program.text)
    warnings = [problem for problem in problems if problem.severity == "Warning" and not legacy]
    errors = program.problems + [problem for problem in problems if problem.severity == "Error"]
    pragmas = (node.key for node in statements if isinstance(node, Pragma))
    return SourceProgram(statements, program.texts, warnings, legacy or "legacy" in pragmas), errors


class _Every:
    """A set that contains every terminal, so that lark's lexer also makes tokens that no rule accepts."""

    always_accept = ("UNCLOSED_STRING", "UNCLOSED_COMMENT", "UNEXPECTED")

    def process(self, stream):
        return stream


class _Unexpected(Exception):
    """A token that the parser cannot accept. stacks: the parser's stacks before it; empty if they were too deep to copy."""

    def __init__(self, stacks: tuple):
        self.stacks = stacks


def _feeding(state):
    """A function that feeds tokens to the parser, like lark's `ParserState.feed_token`; this loop takes half of the time of a
    parse. Rules are looked up by identity, and the stacks are copied only if a token reduces."""
    states, callbacks, end = state.parse_conf.states, state.parse_conf.callbacks, state.parse_conf.end_state
    known: dict[int, tuple] = {}

    def feed(token: Token, is_end: bool):
        kind, stack, values = token.type, state.state_stack, state.value_stack
        before: tuple = ()
        while True:
            found = states[stack[-1]].get(kind)
            if found is None:
                raise _Unexpected(before or (stack, values))
            action, rule = found
            if action is Shift:
                stack.append(rule)
                values.append(token)
                return None
            if not before:
                before = (stack.copy(), values.copy()) if len(stack) <= MAX_COPIED_STACK else ((), ())
            if (reduction := known.get(id(rule))) is None:
                reduction = known[id(rule)] = len(rule.expansion), callbacks[rule], rule.origin.name
            size, make, name = reduction
            parts = values[-size:] if size else []
            if size:
                del stack[-size:], values[-size:]
            values.append(make(parts))
            stack.append(states[stack[-1]][name][1])
            if is_end and stack[-1] == end:
                return values[-1]

    return feed


@cache
def _parser() -> tuple[Lark, StatementBuilder]:
    """The parser and its builder: 250 ms to make the first time, 20 ms to load in later processes."""
    grammar, build = files("semi_naive.language.parsing").joinpath("grammar.lark").read_text("utf-8"), StatementBuilder()
    path = private.cache("parsers") / f"parser-{private.digest(grammar, OPTIONS, lark.__version__, sys.version)}"
    ours = {"transformer": build, "postlex": _Every()}
    if (data := private.load(path)) is not None:
        try:
            return Lark._load_from_dict(
                **pickle.loads(data), **ours
            ), build  # as a parser that Lark has written as a module does
        except Exception as error:  # an unpickler raises many types for a file of another build
            log.info("the parser is made again, as %s does not load: %r", path, error)
    made, file = Lark(grammar, **OPTIONS, **ours), io.BytesIO()
    made.save(file, exclude_options=list(ours))
    try:
        private.save_checked(path, file.getvalue())
    except OSError as error:
        log.info("the parser is not kept: %s", error)
    return made, build


@cache
def words() -> frozenset[str]:
    """The keywords of the grammar, which cannot be names of relations."""
    terminals = _parser()[0].terminals
    return frozenset(each.pattern.value for each in terminals if each.pattern.type == "str") | {"ordered"}


def _parse_statements(text: Text) -> tuple[list, list[Problem]]:
    """The statements and the syntax errors. After an error parsing continues with the next statement."""
    parser, build = _parser()
    problems = build.begin(text)
    if not text.whole().strip():
        return [], problems
    run = parser.parse_interactive(text.whole())
    state = run.parser_state
    tokens = _without_annotations(run.lexer_thread.lex(state))
    tokens.append(_end_token(text.whole()))
    at, statements, feed = 0, [], _feeding(state)
    while at < len(tokens):
        try:
            statements = feed(tokens[at], at == len(tokens) - 1)
            at += 1
        except _Unexpected as error:
            if not error.stacks[0]:  # they were too deep to be kept: there is no way back
                hint = "name a part of the expression in brackets: x = …, or make it a relation of its own"
                problems.append(Problem("syntax error in brackets that are nested too deep", text.span(tokens[at]), hint))
                break
            state.state_stack, state.value_stack = (
                error.stacks
            )  # some rules were reduced before the token turned out to be wrong
            name = lambda terminal: _terminal_name(parser, terminal)  # noqa: E731
            problems.append(syntax_problem(tokens, at, run.accepts(), state.value_stack, name, text.span))
            build.forget()
            errors = sum(problem.severity == "Error" for problem in problems)
            at = _recovered(run, tokens, at) if errors < MAX_SYNTAX_ERRORS else len(tokens)
    return statements or [], problems


def _without_annotations(tokens) -> list[Token]:
    """Tokens without @[…] and @![…], which may stand nearly anywhere, contain any tokens, and have no effect."""
    out: list[Token] = []
    depth = 0
    for token in tokens:
        if depth:
            depth += (token.type == "LSQB") - (token.type == "RSQB")
        elif token.type == "LSQB" and _annotates(out):
            while out.pop().type != "AT":
                pass
            depth = 1
        else:
            out.append(token)
    return out


def _annotates(tokens: list[Token]) -> bool:
    last = tokens[-2:]
    return bool(last) and (last[-1].type == "AT" or [token.type for token in last] == ["AT", "BANG"])


def _end_token(text: str) -> Token:
    """The token that ends the parse, after the last character."""
    line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    return Token("$END", "", len(text), line, column, line, column, len(text))


def _terminal_name(lark: Lark, terminal: str) -> str:
    """A terminal's name in messages."""
    pattern = lark.get_terminal(terminal).pattern
    return pattern.value.removesuffix(r"(?=\s)").replace("\\", "")


def _recovered(run, tokens: list[Token], at: int) -> int:
    """Drop the unfinished statement: unwind to a state in which a statement can begin, and skip to a token that may begin
    one."""
    braces = 0
    while "DECL" not in (accepted := run.accepts()):
        run.parser_state.state_stack.pop()
        given_up = run.parser_state.value_stack.pop()
        braces += isinstance(given_up, Token) and given_up.type == "LBRACE"
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
    return tokens[dot + 1].type == "IDENT" and tokens[dot + 1].start_pos == tokens[dot].end_pos
