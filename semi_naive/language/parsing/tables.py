"""The tables of the parser. Lark makes them from grammar.lark once; later processes read a file without lark."""

import logging
import pickle
import sys
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from semi_naive.host import private

log = logging.getLogger("semi_naive")
BLANK_FOLLOWS = r"(?=\s)"  # the end of a directive's pattern


class ParserRule(NamedTuple):
    """A rule of the grammar: its last `size` symbols become one.

    method: of the builder; "" for a rule that lark has made for a repetition.
    repeats: some of its symbols are repetitions.
    passing: a single value is the result itself."""

    symbol: str
    size: int
    method: str
    repeats: bool
    passing: bool


class Tables(NamedTuple):
    """An LALR parser.

    pattern, words, ignored: see `tokens_of`.
    terminals: for each terminal its text or pattern, and True if it is a text.
    states: for each state, by symbol: the next state, or ~n to reduce by `reductions[n]`."""

    pattern: str
    words: dict[str, dict[str, str]]
    ignored: frozenset[str]
    terminals: dict[str, tuple[str, bool]]
    states: dict[int, dict[str, int]]
    reductions: list[ParserRule]
    start: int
    end: int


class _Every:
    """A set that contains every terminal, so that the lexer also makes tokens that no rule accepts."""

    always_accept = ("UNCLOSED_STRING", "UNCLOSED_COMMENT", "UNEXPECTED")

    def process(self, stream):
        return stream


@cache
def tables() -> Tables:
    """Return the tables of the language. Making them takes 250 ms; later processes load them from a file, in 3 ms."""
    grammar, made_by = Path(__file__).with_name("grammar.lark").read_text("utf-8"), Path(__file__).read_bytes()
    path = private.cache("parsers") / f"parser-{private.digest(grammar, made_by, sys.version)}"
    if (data := private.load(path)) is not None:
        try:
            return pickle.loads(data)
        except Exception as error:  # an unpickler raises many types for a file of another build
            log.info("the parser is made again, as %s does not load: %r", path, error)
    parser_tables = make_tables(grammar)
    try:
        private.save_checked(path, pickle.dumps(parser_tables))
    except OSError as error:
        log.info("the parser is not kept: %s", error)
    return parser_tables


def make_tables(grammar: str) -> Tables:
    """Return the tables of a grammar whose rules keep all tokens."""
    from lark import Lark
    from lark.lexer import BasicLexer
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(grammar, parser="lalr", lexer="basic", keep_all_tokens=True, maybe_placeholders=False, postlex=_Every())
    lexer, table = BasicLexer(lark.lexer_conf), lark.parser.parser._parse_table
    pattern, words = _pattern(lexer)
    rule_numbers: dict = {}

    def encoded(action, argument) -> int:
        """Return the next state of a shift, or ~n for a reduction by rule n."""
        return argument if action is Shift else ~rule_numbers.setdefault(argument, len(rule_numbers))

    states = {
        state: {sys.intern(str(symbol)): encoded(*action) for symbol, action in row.items()}
        for state, row in table.states.items()
    }
    terminals = {str(token.name): (str(token.pattern.value), token.pattern.type == "str") for token in lark.terminals}
    [start], [end] = table.start_states.values(), table.end_states.values()
    ignored = frozenset(map(str, lark.lexer_conf.ignore))
    reductions = [_reduction(rule) for rule in rule_numbers]
    return Tables(pattern, words, ignored, terminals, states, reductions, start, end)


def _pattern(lexer) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the pattern and the words of a lexer of lark; see `tokens_of`. Successive terminals that are texts or directives
    share a group, in which Python decides by the next character: it tries groups one by one, which takes twice as long."""
    groups, scanner = [], lexer.scanner  # making it sets the callbacks
    words = {str(name): _names_by_text(unless.scanner.terminals) for name, unless in lexer.callback.items()}
    for name, alike in groupby(scanner.terminals, _group):
        if len(terminals := list(alike)) > 1:
            words[name] = _names_by_text(terminals)
        else:
            name = terminals[0].name
        groups.append(f"(?P<{name}>{'|'.join(terminal.pattern.to_regexp() for terminal in terminals)})")
    return "|".join(groups), words


def _group(terminal) -> str:
    """Return the name of the group that a terminal may share."""
    if terminal.pattern.type == "str":
        return "TEXT"
    return "DIRECTIVE" if terminal.pattern.value.endswith(BLANK_FOLLOWS) else terminal.name


def shown(pattern: str) -> str:
    r"""Return the text of a terminal, given that or its pattern, without lookahead and escapes.

    >>> shown("("), shown(r"\.decl(?=\s)")
    ('(', '.decl')
    """
    return pattern.removesuffix(BLANK_FOLLOWS).replace("\\", "")


def _names_by_text(terminals: Iterable) -> dict[str, str]:
    return {shown(str(terminal.pattern.value)): str(terminal.name) for terminal in terminals}


def _reduction(rule) -> ParserRule:
    """Return a rule of lark as a `ParserRule`. Its strings become plain ones, as lark's own would load lark."""
    symbol, is_repetition = sys.intern(str(rule.origin.name)), rule.origin.name.startswith("_")
    repeats = any(not part.is_term and part.name.startswith("_") for part in rule.expansion)
    method = "" if is_repetition else str(rule.alias or symbol)
    return ParserRule(symbol, len(rule.expansion), method, repeats, bool(rule.options.expand1 and not rule.alias))
