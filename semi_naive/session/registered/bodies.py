"""Queries with a body: the values of the variables for which all literals hold.

    path("Ulm", y), !blocked(y)     becomes     query(y) :- path("Ulm", y), !blocked(y).     .decl query(y: symbol)

The rule is registered while the query is answered, so a body may have everything that rules may have: parameters, aggregates,
arithmetic, system relations. It cannot read relations that have parameters.
"""

from collections.abc import Mapping

from semi_naive.io.errors import BadInput
from semi_naive.language import syntax
from semi_naive.language.parsing.parse import parse
from semi_naive.language.trees import rebuilt, walk
from semi_naive.ra import ir
from semi_naive.sandbox import NoFiles
from semi_naive.session.registered.checking import inferred_types
from semi_naive.session.registered.rules import ReadableByName, declarations_read

NAME = "query"  # the name of the relation of the answers, and of the text in errors
EXPECTS = 'a query is an atom or a body, as in path(1, y), name(x, "Ann") or path(1, y), !blocked(y), y > 3'
PLAIN_TERMS = (
    syntax.Variable | syntax.Underscore | syntax.Number | syntax.String | syntax.Nil | syntax.RecordInit | syntax.BranchInit
)


def parse_query(text: str) -> syntax.Atom | syntax.Clause:
    """Parse a query. Return an atom if it is one without arithmetic, functors and parameters; otherwise return a rule whose
    body is the query, and whose head is NAME without attributes. Raises ProgramError or BadInput for any other text.

    >>> parse_query("path(1, y)").relation, parse_query("path(1, y), y > 3.").body.items[1].op
    ('path', '>')
    """
    statements = parse(_rule(f"{NAME}()", text), f"<{NAME}>", sandbox=NoFiles()).statements
    [clause] = statements if len(statements) == 1 else [None]
    if not isinstance(clause, syntax.Clause) or clause.body is None or clause.plan is not None:
        raise BadInput(f"{text.strip()!r} is no query", hint=EXPECTS)
    body = clause.body
    if isinstance(body, syntax.Atom) and all(map(_is_plain, (node for term in body.args for node in walk(term)))):
        return body
    return clause


def _rule(head: str, body: str) -> str:
    """Return the text of a rule. A body with a # gets its own lines, so that the preprocessor finds its directives."""
    body = body.strip().removesuffix(".")
    return f"{head} :-\n{body}\n." if "#" in body else f"{head} :- {body}."


def _is_plain(term: syntax.Node) -> bool:
    """True for a term that an index search can answer: no parameter, and nothing to compute."""
    return isinstance(term, PLAIN_TERMS) and not (isinstance(term, syntax.Variable) and term.name.startswith("$"))


def rules_of_body(name: str, text: str, readable: ReadableByName, program: ir.Program) -> str:
    """Return the text of a rule and a declaration for the answers to a query: a relation with an attribute for each variable
    outside of aggregates, in the order of the text. name: that of the relation; text: the query; readable: the relations that
    it may read; program: the session's."""
    clause = parse_query(text)
    body = clause if isinstance(clause, syntax.Atom) else clause.body
    outside = rebuilt(body, lambda node: syntax.Underscore() if isinstance(node, syntax.Aggregate) else None)
    names = dict.fromkeys(node.name for node in walk(outside) if isinstance(node, syntax.Variable))
    variables = [variable for variable in names if not variable.startswith("$")]
    types = _types_of_variables(variables, body, readable, program)
    attributes = ", ".join(f"{variable}: {types[variable]}" for variable in variables)
    rule = _rule(f"{name}({', '.join(variables)})", text)
    return f"{rule}\n.decl {name}({attributes})"


def _types_of_variables(variables: list[str], body, readable: ReadableByName, program: ir.Program) -> Mapping[str, str]:
    """Infer the type of each variable of a body; number if it is undetermined, which the rule's check accepts or reports."""
    declarations = declarations_read(walk(body), readable, NAME)
    inferred = inferred_types(variables, [*program.typed, *declarations, syntax.Clause((syntax.Atom(NAME, ()),), body)])
    return {name: inferred.get(name, "number") for name in variables}
