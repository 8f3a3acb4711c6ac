"""Build the syntax tree of bodies and expressions from the parser's reductions."""

from dataclasses import replace

from semi_naive.language import syntax
from semi_naive.language.iterations import NUMBER
from semi_naive.language.parsing.reduce import Reduce, node, of_fields, worded
from semi_naive.language.reductions.heads import AGGREGATES
from semi_naive.language.syntax import Functor, Number
from semi_naive.ra.values.kinds import MAX_INTEGER_DIGITS


class TermBuilder(Reduce):
    """One method for each rule of the grammar below a clause. For its arguments see `build.StatementBuilder`."""

    either, both = of_fields(syntax.Or, own=0), of_fields(syntax.And, own=0)
    negation, atom = of_fields(syntax.Negation), of_fields(syntax.Atom)

    @node
    def group(self, span, body):
        return replace(body, span=span) if isinstance(body, (syntax.And, syntax.Or)) else body

    @node
    def paren(self, span, value):
        """Return an expression with the span of its brackets. Nodes that `_check_aggregates` finds by identity are kept."""
        return value if isinstance(value, Functor) and value.name in AGGREGATES else replace(value, span=span)

    @worded
    def comparison(self, span, left, op, right):
        return syntax.Constraint(str(op), (left, right), span=span)

    @worded
    def test(self, span, op, _open, left, _comma, right, _close):
        return syntax.Constraint(str(op), (left, right), span=span)

    @worded
    def truth(self, span, word):
        return syntax.Constraint(str(word), span=span)

    # -- expressions

    variable = asked = of_fields(syntax.Variable)  # `asked`: a parameter of a registered rule; a program cannot have one
    underscore, nil, record = of_fields(syntax.Underscore), of_fields(syntax.Nil), of_fields(syntax.RecordInit)
    functor, branch_init, cast = of_fields(Functor), of_fields(syntax.BranchInit), of_fields(syntax.As)

    @worded
    def binary(self, span, left, op, right):
        return Functor(str(op), (left, right), span=span)

    @worded
    def prefix(self, span, op, value):
        """Build a unary operator; a sign becomes a part of its number, but of several signs only the last one."""
        if op != "-":
            return Functor(str(op), (value,), span=span)
        if isinstance(value, Number) and value.value >= 0:
            return Number(-value.value, value.suffix, span=span)
        return Functor("neg", (value,), span=span)

    @node
    def string(self, span, text):
        return syntax.String(self._unescaped(text), span=span)

    @node
    def file_name(self, span):
        return syntax.String(span.file, span=span)

    @node
    def line_number(self, span):
        return Number(span.line, span=span)

    @node
    def number(self, span, text):
        return Number(integer_literal(text), span=span)

    @node
    def unsigned(self, span, text):
        return Number(integer_literal(text[:-1]), "u", span=span)

    @node
    def float(self, span, text):
        return Number(float(text), "f", span=span)

    @node
    def address(self, span, text):
        """Return the signed 32-bit number with the bytes of an IPv4 address."""
        parts = [int(part) for part in text.split(".")]
        if max(parts) > 255:
            self.problem("IP out of range", span, "each of the four numbers of an address is at most 255")
            return Number(0, span=span)
        return Number(int.from_bytes(parts, "big", signed=True), span=span)

    @worded
    def counter(self, span, word, *_):
        """Build autoinc(), also from the deprecated $."""
        if word == "$":
            self.deprecated("Deprecated $ symbol was used. Use functor 'autoinc()' instead.", span, "write autoinc()")
        return Functor("autoinc", (), span=span)

    @node
    def aggregate_functor(self, span, name, *args):
        """Build the name of an aggregate with arguments: min or max of several is a functor; others aggregate in a head."""
        if name not in ("min", "max", "count") and len(args) != 1:
            hint = f"an aggregate has a body: {aggregate_form(name)}"
            self.problem(f"{name} is an aggregate and not a functor", span, hint)
        functor = Functor(str(name), args, span=span)
        if len(args) == 1 or name == "count":
            self.state.head_aggregates.append(functor)
        return functor

    @node
    def aggregate(self, span, op, *rest):
        """Build an aggregate: op, target (except for count), body."""
        *target, body = rest
        if (op == "count") == bool(target):
            self.problem("incorrect expression arity for given aggregate mode", span, f"it is written {aggregate_form(op)}")
        return syntax.Aggregate(str(op), target[0] if target else None, body, span=span)

    @node
    def user_functor(self, span, name, args=()):
        return Functor(f"@{name}", args, span=span)

    @node
    def user_aggregate(self, span, name, *rest):
        """Build a user-defined aggregate: name, target, initial value, body."""
        *target, init, body = rest
        if not target:
            hint = f"it is written @@{name} e : init, {{ … }}"
            self.problem("incorrect expression arity for given aggregate mode", span, hint)
        return syntax.Aggregate(f"@@{name}", target[0] if target else init, body, init, span=span)

    @node
    def iteration(self, span):
        return Functor(NUMBER, (), span=span)


def aggregate_form(op: str) -> str:
    """Return an example of an aggregate, for messages."""
    return "count : { … }" if op == "count" else f"{op} e : {{ … }}"


def integer_literal(text: str) -> int:
    """Return the value of a literal. A literal with more digits than Python converts becomes a number out of range."""
    base = {"0x": 16, "0b": 2}.get(text[:2], 10)
    digits = (text[2:] if base != 10 else text).lstrip("0")
    return int(digits or "0", base) if len(digits) <= MAX_INTEGER_DIGITS else 1 << MAX_INTEGER_DIGITS
