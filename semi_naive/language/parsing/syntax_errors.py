"""Messages of syntax errors: the token that was found, the tokens that were expected, and the probable cause."""

from collections.abc import Callable

from semi_naive.host.numbers import series, shortened
from semi_naive.language.errors import Problem, Span
from semi_naive.language.parsing.tokens import Token

KINDS = {
    "IDENT": "identifier",
    "STRING": "string",
    "NUMBER": "number",
    "UNSIGNED": "number",
    "FLOAT": "number",
    "IP": "address",
}
EXPRESSION = frozenset(
    "NUMBER UNSIGNED FLOAT IP STRING NIL UNDERSCORE DOLLAR AUTOINC AS AT MINUS BNOT LNOT LSQB __FILE__ __LINE__ "
    "RECURSIVE_ITERATION_CNT __ITERATION__ CAT ORD RANGE STRLEN SUBSTR TO_FLOAT TO_NUMBER TO_STRING TO_UNSIGNED COUNT SUM "
    "MIN MAX MEAN PARAMETER".split()
)
OPERATORS = frozenset("LOR LXOR LAND BOR BXOR BAND BSHL BSHR BSHRU PLUS MINUS STAR SLASH PERCENT CIRCUMFLEX".split())
COMPARISONS = frozenset("LESSTHAN MORETHAN LESSEQUAL MOREEQUAL EQUAL NOTEQUAL".split())
LITERALS = frozenset("BANG MATCH CONTAINS TRUE FALSE".split())
QUALIFIERS = frozenset(
    "OVERRIDABLE INLINE NO_INLINE MAGIC NO_MAGIC BRIE BTREE BTREE_DELETE EQREL ORDERED INPUT OUTPUT PRINTSIZE"
    " CHOICE_DOMAIN".split()
)
STATEMENTS = frozenset(
    "TYPE NUMBER_TYPE SYMBOL_TYPE LATTICE DECL FUNCTOR INPUT_DECL OUTPUT_DECL PRINTSIZE_DECL LIMITSIZE_DECL "
    "PRAGMA SEMANTICS COMP INIT OVERRIDE".split()
)
DIRECTIVES = (
    "type decl functor input output printsize limitsize pragma semantics comp init override plan join lattice include "
    "once".split()
)
BRACKETS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
SLIPS = {  # common mistakes: a token, or two neighbouring ones, and the advice
    "&": "`and` is written with a comma",
    "and": "`and` is written with a comma",
    "or": "`or` is written with a semicolon",
    "not": "`not` is written !",
    "is": "equality is written with one =",
    "mod": "the remainder is written %",
    "'": "strings are written in double quotes",
    "~": "`not` is written !, and the complement of a number's bits bnot",
    "= =": "equality is written with one =",
    "= >": "it is written >=",
    "< -": "a rule is written head :- body.",
    "\\ +": "`not` is written !",
    "\\ =": "inequality is written !=",
    "= \\": "equality is written with one =, and inequality !=",
    "? -": "`.output path` names a relation to print; a question is asked by Program.session(…).query('path(1, y)')",
    "( *": "what is counted has a name: n = count : { edge(x, _) } in a body, or count(y) in a head",
    "count {": "an aggregate has a colon: n = count : { edge(x, _) }",
    ": =": "a rule is written head :- body, and equality with one =",
    "| |": "`or` is written with a semicolon",
    "< >": "inequality is written !=",
    "* *": "a power is written with ^",
}


def syntax_problem(
    tokens: list[Token], at: int, expected: set[str], stack: list, name: Callable[[str], str], text: str
) -> Problem:
    """Return the problem of the unexpected token tokens[at]. expected: the terminals that the parser would accept; stack: the
    parser's values of unfinished rules; name: returns the text of a terminal; text: of the program."""
    token = tokens[at]
    if token.type == "UNCLOSED_COMMENT":
        file, line, column, *_ = token.span
        opening = Span(file, line, column, line, column + len("/*"))
        return Problem("unterminated comment block, missing '*/'", opening, "close it with */")
    if token.type == "UNCLOSED_STRING":
        return Problem("unclosed string", token.span, 'a string ends with a double quote; one inside of it is written \\"')
    expecting = series(_expected_words(expected, name), "or")
    message = f"syntax error, unexpected {_unexpected(token)}" + (f", expecting {expecting}" if expecting else "")
    problem = Problem(message, token.span, _hint(tokens, at, expected, text))
    opened = _unclosed(token, stack, expected)
    if opened is not None:
        problem.hint = f"close the {opened} first"
        problem.notes.append(("opened here", opened.span))
    return problem


def _unexpected(token: Token) -> str:
    """Return a token as text for a message."""
    if token.type == "$END":
        return "end of file"
    text = shortened(str(token), 40)
    return f"{KINDS[token.type]} {text}" if token.type in KINDS else text


def _expected_words(expected: set[str], name: Callable[[str], str]) -> list[str]:
    """Return the expected terminals in words; one word stands for a whole class of them."""
    rest, words = set(expected), []
    if rest >= STATEMENTS - {"FUNCTOR", "PRAGMA", "SEMANTICS"}:
        words.append("a clause or a declaration")
        rest -= STATEMENTS | {"IDENT", "$END", "PLAN", "JOIN"}
    if rest >= EXPRESSION:
        words.append("a literal" if rest >= LITERALS else "an expression")
        rest -= EXPRESSION | LITERALS | {"IDENT", "LPAR"}
    for terminals, word in ((COMPARISONS, "a comparison"), (OPERATORS, "an operator"), (QUALIFIERS, "a qualifier")):
        if rest >= terminals:
            words.append(word)
            rest -= terminals
    texts = {terminal: name(terminal) for terminal in rest - {"$END"}}
    named = {KINDS.get(terminal) or (text if text.isalpha() else f"'{text}'") for terminal, text in texts.items()}
    return words + sorted(named) + ["end of file"] * ("$END" in rest)


def _hint(tokens: list[Token], at: int, expected: set[str], text: str) -> str:
    """Return advice for the unexpected token tokens[at]; "" if there is none. expected: the terminals that the parser would
    accept; text: of the program."""
    token = tokens[at]
    before = tokens[at - 1] if at else None
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    slips = (token, before, f"{before} {token}", f"{token} {after}")
    if advice := next(filter(None, map(SLIPS.get, map(str, slips))), None):
        return advice
    begins_line = before is not None and "\n" in text[before.end : token.start]
    if token.type == "PERCENT" and (before is None or begins_line):
        return "comments begin with //"
    for string in (token, before):
        if string is not None and string.type == "STRING" and "\n" in string:
            _, begin, _, end, _ = string.span
            return f"the string that begins in line {begin} ends in line {end}: is its quote missing?"
    if token.type == "DOT" and after is not None and after.type == "IDENT" and after.start == token.end:
        from difflib import get_close_matches

        close = get_close_matches(after, DIRECTIVES, 1)
        return f"is it .{close[0]} that is meant?" if close else f"the directives are {', '.join('.' + d for d in DIRECTIVES)}"
    if "IDENT" in expected and not expected & LITERALS and str(token).isidentifier() and token.type != "IDENT":
        return f"{token} is a word of the language: take another name"
    if "DOT" in expected and (begins_line or token.type == "$END"):
        return "rules and facts end with a dot: it is probably missing here, after what comes before"
    if "IF" in expected:
        return "a rule is written head :- body."
    if expected == {"COLON"} and token.type in ("COMMA", "RPAR"):
        return f"every attribute has a type: {before}: number"
    return ""


def _unclosed(token: Token, stack: list, expected: set[str]) -> Token | None:
    """Return the innermost open bracket, if a token that ends a part is unexpected because the bracket is not closed."""
    if token.type not in {"DOT", "IF", "$END", *BRACKETS.values(), *STATEMENTS}:
        return None
    closed = 0  # closing brackets whose opening one is not met yet
    for value in reversed([value for value in stack if isinstance(value, Token)]):
        closed += value.type in BRACKETS.values()
        if value.type in BRACKETS:
            if not closed:
                return value if BRACKETS[value.type] in expected else None
            closed -= 1
    return None
