"""Relations that are added to a running session: a declaration, and facts that transactions change."""

from collections.abc import Collection

from semi_naive.io.errors import BadInput
from semi_naive.language import syntax
from semi_naive.language.checking import check_source
from semi_naive.language.errors import ProgramError
from semi_naive.language.parsing.parse import parse
from semi_naive.ra import ir
from semi_naive.sandbox import NoFiles

FILE = "<declare>"  # the file that errors name
EXPECTED = "expected one declaration, as color(x: number, c: symbol)"


def declared_relation(text: str, taken: Collection[str], program: ir.Program) -> ir.Relation:
    """Check the declaration of a relation, with or without .decl, and return the relation. Raises ProgramError for errors in
    it, and BadInput for anything else. taken: the names that the session has; program: the session's, whose types it may use.

    >>> declared_relation("color(x: number, c: symbol)", ["edge"], ir.Program({}, {}, [])).arity
    2
    """
    text = text if text.lstrip().startswith(".") else f".decl {text}"
    source = parse(text, FILE, sandbox=NoFiles())
    [declaration] = source.statements if len(source.statements) == 1 else [None]
    if not isinstance(declaration, syntax.RelationDecl):
        raise BadInput(f"{text.strip()!r} is no declaration of a relation", hint=EXPECTED)
    name = declaration.name
    if name in taken:
        raise BadInput(f"the session has a relation {name} already", hint="give the new one another name")
    try:
        checked = check_source(syntax.SourceProgram([*program.typed, declaration], source.texts))
    except ProgramError as error:  # without the warning that no rule defines it
        raise ProgramError([each for each in error.problems if each.severity == "Error"], source.texts) from None
    relation = checked.relations[name]
    if relation.qualifiers or relation.choice or relation.joins or not relation.plain:
        hint = "it has facts only: declare the rest in the program, or by registered rules"
        raise BadInput(f"{name} cannot be added to a session as it is declared here", hint=hint)
    return relation
