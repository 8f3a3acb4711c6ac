"""Convert rules given as Python data (see `semi_naive.rules`) to a syntax tree, with a generated text to which errors refer."""

import re
from numbers import Integral, Real

from semi_naive.branch import Branch
from semi_naive.language import syntax
from semi_naive.language.errors import Span
from semi_naive.rules import Expression, Value

COMPARED = {"=", "!=", "<", "<=", ">", ">="}
TESTS = {"match", "contains"}
AGGREGATES = {"count", "sum", "min", "max", "mean"}
INFIX = {"+", "-", "*", "/", "%", "^"}
NAME = re.compile(r"[A-Za-z_?][\w?]*(\.[A-Za-z_?][\w?]*)*")
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def syntax_of_rules(
    relations: dict, rules, outputs=None, types: dict | None = None, file: str = "<rules>"
) -> syntax.SourceProgram:
    """Return the syntax tree of a program given as data, with its generated text. See `Program.from_rules`."""
    statements = []
    lines: list[str] = []

    def write(method, *arguments) -> None:
        line = _Line(file, len(lines) + 1)
        statements.append(method(line, *arguments))
        lines.append(line.text)

    for name, definition in (types or {}).items():
        write(_Line.type, name, definition)
    for name, attributes in relations.items():
        write(_Line.relation, name, attributes)
    heads = []
    for number, rule in enumerate(rules):
        write(_Line.rule, rule, f"rules[{number}]")
        heads.append(statements[-1].heads[0].relation)
    for name in dict.fromkeys(heads if outputs is None else outputs):
        write(_Line.output, name)
    return syntax.SourceProgram(statements, {file: "\n".join(lines)})


def _pairs(items) -> tuple[tuple, ...]:
    """Return the items of a dict, or pairs, as tuples."""
    return tuple(items.items()) if isinstance(items, dict) else tuple(map(tuple, items))


class _Line:
    """The generated text of one statement. Methods append text, and return its syntax node with its span. place: its
    position in the data, for errors.
    """

    def __init__(self, file: str, number: int):
        self.file, self.number, self.text, self.place = file, number, "", ""

    def _span(self, begin: int) -> Span:
        """Return the span from a position of the text to its present end."""
        return Span(self.file, self.number, begin + 1, self.number, len(self.text) + 1)

    def _node(self, kind: type[syntax.Node], begin: int, *fields, **named):
        """Return a node of a class for the text from a position on."""
        return kind(*fields, **named, span=self._span(begin))

    def _error(self, what, expected: str) -> ValueError:
        return ValueError(f"{self.place}: found {what!r:.60}, expected {expected}")

    def _name(self, name, what: str) -> str:
        """Return a name. Raises ValueError if it is none. what: what it names, for the error."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise self._error(name, f"the name of {what}: letters, digits and _")
        return name

    def _write_all(self, items, write, between: str = ", ", opened: str = "", closed: str = "") -> tuple:
        """Append items to the text, with a separator and between brackets, and return their nodes. `write` appends one and
        returns its node."""
        nodes: list = []
        self.text += opened
        for item in items:
            self.text += between if nodes else ""
            nodes.append(write(item))
        self.text += closed
        return tuple(nodes)

    # -- declarations

    def type(self, name: str, definition):
        """Declare a type. definition: the name of its supertype, the fields of a record, or the branches of a sum."""
        self.place = f"types[{name!r}]"
        self.text = f".type {self._name(name, 'a type')} "
        if isinstance(definition, str):
            self.text += f"<: {self._name(definition, 'a type')}"
            return self._node(syntax.SubtypeDecl, 0, name, definition)
        pairs = _pairs(definition)
        # a branch has fields, and a field the name of a type
        if pairs and not any(isinstance(pair[1], str) for pair in pairs if len(pair) == 2):
            self.text += "= "
            return self._node(syntax.SumDecl, 0, name, self._write_all(pairs, self._branch_decl, " | "))
        fields, spans = self._write_typed_names(pairs, "= [", "]")
        return self._node(syntax.RecordDecl, 0, name, fields, spans)

    def _branch_decl(self, pair) -> syntax.BranchDecl:
        """Declare a branch, a pair of its name and its fields."""
        if len(pair) != 2:
            raise self._error(pair, "a pair: the name of a branch and its fields")
        begin = len(self.text)
        self.text += f"{self._name(pair[0], 'a branch')} "
        fields, spans = self._write_typed_names(pair[1], "{", "}")
        return self._node(syntax.BranchDecl, begin, pair[0], fields, spans)

    def relation(self, name: str, attributes):
        """Declare a relation. attributes: {name: type}, or pairs."""
        self.place = f"relations[{name!r}]"
        self.text = f".decl {self._name(name, 'a relation')}"
        span = self._span(len(".decl "))
        fields, spans = self._write_typed_names(attributes, "(", ")")
        return syntax.RelationDecl(name, fields, spans=spans, span=span)

    def _write_typed_names(self, fields, opened: str, closed: str) -> tuple[tuple, tuple]:
        """Append attributes or fields, given as a dict or as pairs, between brackets. Return (their (name, type) pairs, the
        spans of the types)."""
        pairs, spans = _pairs(fields), []
        self.text += opened
        for number, pair in enumerate(pairs):
            if len(pair) != 2:
                raise self._error(pair, "a pair: a name and a type")
            name, type_name = pair
            self.text += f"{', ' if number else ''}{self._name(name, 'an attribute')}: "
            begin = len(self.text)
            self.text += self._name(type_name, "a type")
            spans.append(self._span(begin))
        self.text += closed
        return pairs, tuple(spans)

    def output(self, name: str) -> syntax.Directive:
        self.place = "outputs"
        self.text = f".output {self._name(name, 'a relation')}"
        return self._node(syntax.Directive, 0, "output", name)

    # -- rules

    def rule(self, rule, place: str) -> syntax.Clause:
        """Return the clause of a rule (head, literal, …)."""
        self.place = place
        if not isinstance(rule, (tuple, list)) or not rule or isinstance(rule[0], str):
            raise self._error(rule, "(head, literal, …), each of them a tuple")
        head = self._atom(rule[0])
        if len(rule) == 1:
            self.text += "."
            return self._node(syntax.Clause, 0, (head,))
        self.text += " :- "
        begin = len(self.text)
        items = self._write_all(rule[1:], self._literal)
        body = items[0] if len(items) == 1 else self._node(syntax.And, begin, items)
        self.text += "."
        return self._node(syntax.Clause, 0, (head,), body)

    def _literal(self, data):
        """Return the node of an atom, negation or constraint."""
        begin = len(self.text)
        if not isinstance(data, (tuple, list)) or not data or not isinstance(data[0], str):
            raise self._error(data, 'a literal: (relation, term, …), ("!", relation, term, …) or (op, term, term)')
        if data[0] == "!":
            self.text += "!"
            # ("!", (relation, …)) or ("!", relation, …)
            inner = data[1] if len(data) == 2 and isinstance(data[1], (tuple, list)) else data[1:]
            return self._node(syntax.Negation, begin, self._literal(inner))
        if data[0] in COMPARED or data[0] in TESTS:
            return self._constraint(data, begin)
        return self._atom(data)

    def _constraint(self, data, begin: int):
        """Return the node of a comparison or test (op, term, term)."""
        op, *args = data
        if len(args) != 2:
            raise self._error(data, f"({op!r}, term, term)")
        if op in COMPARED:
            terms = self._write_all(args, self._term, f" {op} ")
        else:
            terms = self._write_all(args, self._term, opened=f"{op}(", closed=")")
        return self._node(syntax.Constraint, begin, op, terms)

    def _atom(self, data) -> syntax.Atom:
        """Return the node of an atom (relation, term, …)."""
        if not isinstance(data, (tuple, list)) or not data:
            raise self._error(data, "an atom: (relation, term, …)")
        begin = len(self.text)
        args = self._write_all(data[1:], self._term, opened=f"{self._name(data[0], 'a relation')}(", closed=")")
        return self._node(syntax.Atom, begin, data[0], args)

    # -- terms

    def _term(self, data):
        """Return the node of a term: see `semi_naive.rules` for its forms."""
        begin = len(self.text)
        if isinstance(data, Expression):
            return self._term(data.data)
        if isinstance(data, str):
            self.text += self._name(data, 'a variable (of a string constant: value("…"))')
            return self._node(syntax.Underscore, begin) if data == "_" else self._node(syntax.Variable, begin, data)
        if isinstance(data, Value):
            self.text += f'"{data.text.translate(ESCAPED)}"'
            return self._node(syntax.String, begin, data.text)
        if data is None:
            self.text += "nil"
            return self._node(syntax.Nil, begin)
        if isinstance(data, list):
            args = self._write_all(data, self._term, opened="[", closed="]")
            return self._node(syntax.RecordInit, begin, args)
        if isinstance(data, Branch):
            args = self._write_all(data.fields, self._term, opened=f"${self._name(data.name, 'a branch')}(", closed=")")
            return self._node(syntax.BranchInit, begin, data.name, args)
        if isinstance(data, tuple) and data and isinstance(data[0], str):
            return self._functor(data[0], data[1:], begin)
        return self._number(data, begin)

    def _number(self, data, begin: int) -> syntax.Number:
        if isinstance(data, bool) or not isinstance(data, Real):
            raise self._error(data, "a term: a variable, a number, value(…), None, a list or (functor, term, …)")
        number = int(data) if isinstance(data, Integral) else float(data)
        self.text += repr(number)
        return self._node(syntax.Number, begin, number, "f" if isinstance(number, float) else "")

    def _functor(self, name: str, args: tuple, begin: int):
        """Return the node of a functor or an operator with its arguments, of a cast, or of an aggregate."""
        if name in AGGREGATES and args and isinstance(args[-1], list):
            return self._aggregate(name, args, begin)
        if name == "as" and len(args) == 2:
            self.text += "as("
            inner = self._term(args[0])
            self.text += f", {self._name(args[1], 'a type')})"
            return self._node(syntax.As, begin, inner, args[1])
        if name in INFIX and len(args) == 2:
            terms = self._write_all(args, self._term, f" {name} ", "(", ")")
        else:
            terms = self._write_all(args, self._term, opened=f"{self._name(name, 'a functor')}(", closed=")")
        return self._node(syntax.Functor, begin, name, terms)

    def _aggregate(self, op: str, args: tuple, begin: int):
        """Return the node of an aggregate. args: the target, if any, and the list of the body's literals."""
        *target, body = args
        if len(target) > 1 or not body:
            raise self._error((op, *args), f"({op!r}, term, [literal, …])")
        self.text += f"{op} "
        target_node = self._term(target[0]) if target else None
        self.text += " : { " if target else ": { "
        start = len(self.text)
        items = self._write_all(body, self._literal)
        inner = items[0] if len(items) == 1 else self._node(syntax.And, start, items)
        self.text += " }"
        return self._node(syntax.Aggregate, begin, op, target_node, inner)
