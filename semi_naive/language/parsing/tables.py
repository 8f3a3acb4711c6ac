"""The tables of the parser. Lark makes them from grammar.lark once; later processes read them from a file without loading
lark."""

import logging
import pickle
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from semi_naive.host import private

log = logging.getLogger("semi_naive")


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
    grammar = Path(__file__).with_name("grammar.lark").read_text("utf-8")
    path = private.cache("parsers") / f"parser-{private.digest(grammar, Tables._fields, ParserRule._fields, sys.version)}"
    if (data := private.load(path)) is not None:
        try:
            return pickle.loads(data)
        except Exception as error:  # an unpickler raises many types for a file of another build
            log.info("the parser is made again, as %s does not load: %r", path, error)
    made = make_tables(grammar)
    try:
        private.save_checked(path, pickle.dumps(made))
    except OSError as error:
        log.info("the parser is not kept: %s", error)
    return made


def make_tables(grammar: str) -> Tables:
    """Return the tables of a grammar whose rules keep all tokens."""
    from lark import Lark
    from lark.lexer import BasicLexer
    from lark.parsers.lalr_analysis import Shift

    lark = Lark(grammar, parser="lalr", lexer="basic", keep_all_tokens=True, maybe_placeholders=False, postlex=_Every())
    lexer, table = BasicLexer(lark.lexer_conf), lark.parser.parser._parse_table
    [pattern] = lexer.scanner._mres
    words = {
        str(name): {str(each.pattern.value): str(each.name) for each in unless.scanner.terminals}
        for name, unless in lexer.callback.items()
    }
    rule_numbers: dict = {}

    def encoded(action, argument) -> int:
        """Return the next state of a shift, or ~n for a reduction by rule n."""
        return argument if action is Shift else ~rule_numbers.setdefault(argument, len(rule_numbers))

    states = {
        state: {sys.intern(str(symbol)): encoded(*action) for symbol, action in row.items()}
        for state, row in table.states.items()
    }
    terminals = {str(each.name): (str(each.pattern.value), each.pattern.type == "str") for each in lark.terminals}
    [start], [end] = table.start_states.values(), table.end_states.values()
    ignored = frozenset(map(str, lark.lexer_conf.ignore))
    reductions = [_reduction(rule) for rule in rule_numbers]
    return Tables(pattern.pattern, words, ignored, terminals, states, reductions, start, end)


def _reduction(rule) -> ParserRule:
    """Return a rule of lark as a `ParserRule`. Its strings become plain ones, as lark's own would load lark."""
    symbol, is_repetition = sys.intern(str(rule.origin.name)), rule.origin.name.startswith("_")
    repeats = any(not part.is_term and part.name.startswith("_") for part in rule.expansion)
    method = "" if is_repetition else str(rule.alias or symbol)
    return ParserRule(symbol, len(rule.expansion), method, repeats, bool(rule.options.expand1 and not rule.alias))
