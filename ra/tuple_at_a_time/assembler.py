"""The assembler: translates a rule version into instructions of the machine.

    path(x, z) :- delta path(x, y), edge(y, z).

becomes: JOIN path (its delta), binds x and y → JOIN edge by y, binds z → HEAD path x z. Each variable and each constant has a
register. Terms are also referred to by registers, by number.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import NamedTuple

from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Call, Compare, Const, Kind, Literal, Order, Range, Term, Truth, Var
from semi_naive.ra.rules import steps
from semi_naive.ra.rules.ages import AGE, Aged, Older, TicksRef
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.tuple_at_a_time import layout as at

MAX_BINARY_JOIN_BINDINGS = 64  # bindings that binary joins are expected to make of one; with more, a multiway join is used
PARTS = {"delta": at.DELTA, "full": at.FULL, "all": at.ALL}
INTEGER_FUNCTORS = {
    "+": at.ADD, "-": at.SUBTRACT, "*": at.MULTIPLY, "/": at.DIVIDE, "%": at.REMAINDER, "neg": at.NEGATE, "band": at.AND,
    "bor": at.OR, "bxor": at.XOR, "bnot": at.NOT, "bshl": at.SHIFT_LEFT, "bshr": at.SHIFT_RIGHT, "bshru": at.SHIFT_RIGHT_ZEROS,
    "land": at.BOTH, "lor": at.EITHER, "lxor": at.ONE_OF, "lnot": at.NEITHER, "min": at.LEAST, "max": at.GREATEST,
}  # fmt: skip
FUNCTORS = {
    Kind.NUMBER: INTEGER_FUNCTORS,
    Kind.UNSIGNED: INTEGER_FUNCTORS | {
        "/": at.DIVIDE_UNSIGNED, "%": at.REMAINDER_UNSIGNED, "bshr": at.SHIFT_RIGHT_ZEROS, "min": at.LEAST_UNSIGNED,
        "max": at.GREATEST_UNSIGNED,
    },
    Kind.FLOAT: {
        "+": at.ADD_FLOAT, "-": at.SUBTRACT_FLOAT, "*": at.MULTIPLY_FLOAT, "/": at.DIVIDE_FLOAT,
        "neg": at.NEGATE_FLOAT, "min": at.LEAST_FLOAT, "max": at.GREATEST_FLOAT,
    },
}  # fmt: skip
CONVERSIONS: dict[tuple[Kind | None, Kind], int] = {
    (Kind.NUMBER, Kind.FLOAT): at.NUMBER_TO_FLOAT,
    (Kind.UNSIGNED, Kind.FLOAT): at.UNSIGNED_TO_FLOAT,
    (Kind.FLOAT, Kind.NUMBER): at.FLOAT_TO_NUMBER,
    (Kind.NUMBER, Kind.UNSIGNED): at.MOVE,
    (Kind.UNSIGNED, Kind.NUMBER): at.MOVE,
}
EQUALITY = {"=": at.EQUAL, "!=": at.DIFFERENT}
COMPARISONS = {
    Kind.NUMBER: EQUALITY | {"<": at.LESS, "<=": at.UP_TO},
    Kind.UNSIGNED: EQUALITY | {"<": at.LESS_UNSIGNED, "<=": at.UP_TO_UNSIGNED},
    Kind.FLOAT: EQUALITY | {"<": at.LESS_FLOAT, "<=": at.UP_TO_FLOAT},
    Kind.SYMBOL: EQUALITY,
    Kind.RECORD: EQUALITY,
}
MIRRORED = {">": "<", ">=": "<="}
NUMBERS = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT


class Unknown(Exception):
    """Raised for a step that the machine cannot run: it makes strings or records, or aggregates tuples."""


class Access(NamedTuple):
    """The operands by which an instruction refers to what it searches; -1 where there is none.

    blocks: the number of a list of blocks.
    relation, hash_index: the positions of a relation of the stratum, and of its hash index by the key.
    """

    blocks: int
    relation: int = -1
    hash_index: int = -1


@dataclass
class Assembler:
    """A builder of the instructions for all versions of a stratum's rules.

    add_search: function (relation, order, number of keys, part) → the access of a search; its list and index are added.
    add_head: function (relation, order) → the access of the known tuples with which a head is compared; their list is added.
    ages: function (ticks, relation) → number of the list of blocks with ticks.
    values: the content of ids (`ra.values.values`).
    """

    add_search: Callable[[str, Order, int, str], Access]
    add_head: Callable[[str, Order], Access]
    ages: Callable[[TicksRef, str], int]
    values: object
    code: list[int] = field(default_factory=list)
    list_operands: list[int] = field(default_factory=list)  # the positions in `code` that have the number of a list of blocks
    symbols: list[tuple[int, Const]] = field(default_factory=list)  # registers of constants that are not numbers
    registers: list[int] = field(default_factory=list)  # the initial values of the registers
    cursors: int = 0  # the size of the array of cursors and sets of bindings
    set_widths: dict[int, int] = field(default_factory=dict)  # the number of variables of each set, by its position there
    splits: bool = False  # True if the last version begins with the rows of the delta
    binary: bool = False  # True if the last version has binary joins in place of a multiway join

    def version(self, derivation: Derivation, order: Order) -> int:
        """Emit the instructions of a version, and return the position of the first. order: the home order of the head's
        relation. If the machine cannot run a step, Unknown is raised and the code is unchanged."""
        code_size, operands = len(self.code), len(self.list_operands)
        try:
            return self._version(derivation, order)
        except Unknown:
            del self.code[code_size:], self.list_operands[operands:]
            raise

    def _version(self, derivation: Derivation, order: Order) -> int:
        """Emit the instructions of a version, followed by its sieve, and return the position of the first."""
        self.variables: dict[str, int] = {}  # the register of each variable
        self.constants: dict[tuple, int] = {}  # the register of each constant
        # back: the position of the last generator; -1: none, so an instruction that fails ends the version
        self.back, begin, self.binary, self.splits = -1, len(self.code), False, False
        self.sieve: list[tuple[int, int]] = []  # (column of the delta, number of a list of blocks)
        # the delta's column of each variable; None once no condition may be added to the sieve
        self.delta_columns: dict[str, int] | None = None
        self.negations = 0  # the number of negated bodies around an instruction
        self.jumps_to_end: dict[int, list[int]] = {}  # of each negated body, the positions in `code` to be set to its end
        self._steps(derivation.steps)
        self._head(derivation.relation, order, [self._register(term) for term in derivation.head])
        if self.sieve:  # only the first join has one: it reads the delta
            self.code[begin + at.SIEVE] = len(self.code)
            # the list of each (column, list) pair, which follow their number
            self.list_operands += range(len(self.code) + at.SIFT, len(self.code) + 1 + at.SIFT * len(self.sieve), at.SIFT)
            self.code += [len(self.sieve), *(number for sift in self.sieve for number in sift)]
        return begin

    def inserting(self, relation: str, order: Order) -> int:
        """Emit an instruction that inserts a head from consecutive registers of its own; return its position. Called after
        `version`. `inserting.insert_rows` runs only this instruction, so it has no generator before it."""
        self.back, begin = -1, len(self.code)
        self._head(relation, order, [self._new_register() for _ in order])
        return begin

    def _head(self, relation: str, order: Order, values: list[int]) -> None:
        """Emit the insertion of a head. order: the relation's home order; values: the head's registers, in its own order."""
        known = self.add_head(relation, order)
        self.list_operands.append(len(self.code) + at.HEAD_ACCESS)
        self._emit(at.HEAD, known.relation, known.blocks, *values, *(values[column] for column in order))

    def _emit(self, operation: int, *operands: int) -> None:
        """Append an instruction to the code. If it fails, the machine continues at `back`, the last generator of bindings."""
        if self.back in self.jumps_to_end:
            self.jumps_to_end[self.back].append(len(self.code) + at.BACK)
        self.code += [operation, self.back, *operands]

    def _steps(self, body: list) -> None:
        """Emit the steps of a body. Raises Unknown if the machine cannot run one of them."""
        for step in body:
            self._step(step)

    def _step(self, step) -> None:
        """Emit one step of a body. Raises Unknown if the machine cannot run it."""
        if isinstance(step, steps.Join):
            self._search(at.JOIN if step.binds or step.every else at.EXISTS, step, step.part, step.binds)
            if step.projected:
                self._once_each(step)
        elif isinstance(step, steps.AntiJoin):
            self._search(at.LACKS, step, step.part)
        elif isinstance(step, steps.Filter):
            self._filter(step.literal)
        elif isinstance(step, steps.Bind):
            self.variables[step.name] = self._register(step.term)
        elif isinstance(step, steps.Generate):
            self._range(step.literal)
        elif isinstance(step, steps.EarlyProjection):
            self._distinct(step)
        elif isinstance(step, Without):
            self._without(step.steps)
        elif isinstance(step, Aged):
            self.variables[step.name] = self._new_register()
            self._aged(at.AGED, step, step.name)
        elif isinstance(step, Older):
            self._aged(at.OLDER, step, AGE)
        elif getattr(step, "each", math.inf) <= MAX_BINARY_JOIN_BINDINGS and step.steps:  # a `Multiway`
            self.binary = True
            self._steps(step.steps)
        else:
            raise Unknown(type(step).__name__)

    # -- relations

    def _search(self, operation: int, step: steps.Join | steps.AntiJoin, part: str, binds=()) -> None:
        """Emit a search by a step's keys: a JOIN, EXISTS or LACKS. binds: (place in the order, variable) for each new
        variable."""
        keys = [self._register(term) for term in step.keys]
        blocks, relation, index = self.add_search(step.relation, step.order, len(keys), part)
        for _, name in binds:
            self.variables[name] = self._new_register()
        columns = step.order[: len(keys)]
        bound = [(place, step.order[place], self.variables[name]) for place, name in binds]
        begin = len(self.code)
        self._add_to_sieve(operation, step, blocks, relation)
        if self.back == -1 and operation == at.JOIN and part == "delta" and not keys:  # the first join reads all of the delta
            self.splits = True
            self.delta_columns = {name: column for (_, name), (_, column, _) in zip(binds, bound, strict=True)}
        cursor = self._cursor() if operation == at.JOIN else 0
        self.list_operands.append(begin + at.ACCESS)
        no_sieve = -1  # until `_version` knows better
        self._emit(operation, cursor, relation, index, PARTS[part], blocks, len(keys), len(bound), no_sieve, *keys, *columns)
        self.code += [number for triple in bound for number in triple]
        self.back = begin if operation == at.JOIN else self.back

    def _add_to_sieve(self, operation: int, step: steps.Join | steps.AntiJoin, blocks: int, relation: int) -> None:
        """Add to the version's sieve a semijoin of the delta's rows with a joined relation that is not of the stratum. None is
        added after the first computed term, as a row on which that fails must raise its error."""
        key = step.keys[0] if step.keys else None
        column = self.delta_columns.get(key.name) if self.delta_columns and isinstance(key, Var) else None
        if column is not None and operation != at.LACKS and relation < 0:
            self.sieve.append((column, blocks))

    def _once_each(self, step: steps.Join) -> None:
        """Emit the tests that let each combination of values pass once, after a join that reads some columns of a relation of
        the stratum: rows have all columns, and those of the delta may repeat values of older tuples."""
        if step.part == "delta":
            new = (Var(name, Kind.NUMBER) for _, name in sorted(step.binds))  # of any kind: only their registers are read
            self._search(at.LACKS, steps.AntiJoin(step.relation, step.order, (*step.keys, *new), "full"), "full")
        if step.binds:
            self._distinct(steps.EarlyProjection(tuple(sorted(step.keep & self.variables.keys()))))

    def _cursor(self) -> int:
        """Return the position of a new cursor."""
        self.cursors += at.CURSOR_SIZE
        return self.cursors - at.CURSOR_SIZE

    def _range(self, literal: Range) -> None:
        """Emit the generator of a range of whole numbers."""
        kind = literal.result.kind
        if kind == Kind.FLOAT:
            raise Unknown("a range of floats")
        self.delta_columns = None
        start, stop = self._register(literal.start), self._register(literal.stop)
        step = -1 if literal.step is None else self._register(literal.step)
        self.variables[literal.result.name] = value = self._new_register()
        begin = len(self.code)
        self._emit(at.RANGE, self._cursor(), start, stop, step, int(kind == Kind.NUMBER), value)
        self.back = begin

    def _without(self, body: list) -> None:
        """Emit a negated body: continue if it has no solution for the bindings. If its first step fails, execution continues
        after the body; if its last step succeeds, the generator before the body yields its next solution."""
        before, variables = self.back, dict(self.variables)
        end = -2 - len(self.jumps_to_end)  # stands for the position of the body's end, until that is known
        self.delta_columns, self.jumps_to_end[end], self.back, self.negations = None, [], end, self.negations + 1
        self._steps(body)
        self.back, self.negations = before, self.negations - 1
        self._emit(at.FAIL)
        for position in self.jumps_to_end[end]:
            self.code[position] = len(self.code)
        self._emit(at.BEGIN)
        self.variables = variables

    def _aged(self, operation: int, step: Aged | Older, name: str) -> None:
        """Emit an instruction that reads the tick of the tuple that a step's terms denote. name: the variable that is bound to
        it or compared with it."""
        terms = [self._register(term) for term in step.terms]
        self.list_operands.append(len(self.code) + at.AGES)
        self._emit(operation, self.ages(step.now, step.relation), self.variables[name], len(terms), *terms)

    def _distinct(self, projection: steps.EarlyProjection) -> None:
        """Emit an early projection: the machine continues once for each distinct binding of the variables that are still
        needed."""
        if self.negations:
            return  # sets of bindings belong to the whole version, not to one evaluation of a negated body
        self.set_widths[self.cursors] = len(projection.keep)
        self._emit(at.DISTINCT, self.cursors, len(projection.keep), *(self.variables[name] for name in projection.keep))
        self.cursors += at.SET_SIZE

    # -- constraints and terms

    def _filter(self, literal: Literal) -> None:
        """Emit a comparison. Raises Unknown for one of strings other than = and !=, and for a test."""
        if isinstance(literal, Truth):
            if not literal.value:
                self._emit(at.FAIL)
            return
        if not isinstance(literal, Compare):
            raise Unknown("a test of strings")
        left, right, op = literal.left, literal.right, literal.op
        if op in MIRRORED:
            left, right, op = right, left, MIRRORED[op]
        if op not in COMPARISONS[literal.kind]:
            raise Unknown("the order of strings")
        self._emit(COMPARISONS[literal.kind][op], self._register(left), self._register(right))

    def _register(self, term: Term) -> int:
        """Return the register with the value of a term."""
        if isinstance(term, Var):
            return self.variables[term.name]
        if isinstance(term, Const):
            return self._constant(term)
        if isinstance(term, Call):
            return self._call(term)
        raise Unknown(type(term).__name__)

    def _constant(self, term: Const) -> int:
        """Return the register of a constant; equal constants share it."""
        key = term.kind, repr(term.value)
        if key not in self.constants:
            self.constants[key] = self._new_register(int(evaluate(term, {}, 1, self.values)[0]))
            self.symbols += [(self.constants[key], term)] * (term.kind not in NUMBERS)
        return self.constants[key]

    def _call(self, term: Call) -> int:
        """Emit the computation of a functor, and return the register of its value."""
        args = [self._register(arg) for arg in term.args]
        source = term.args[0].kind if term.args else None
        if term.op in ("as", "ord"):  # the same bits, but a float's bits are made unique
            return self._compute(at.BITS_TO_FLOAT, args[0], args[0]) if term.kind == Kind.FLOAT != source else args[0]
        converts = term.op.startswith("to_")
        if converts and source == term.kind:
            return args[0]
        operation = CONVERSIONS.get((source, term.kind)) if converts else FUNCTORS.get(term.kind, {}).get(term.op)
        if operation is None:
            raise Unknown("a functor of strings, or a power")
        if term.op in ("min", "max"):  # of one argument or more; other functors have one or two
            return reduce(partial(self._compute, operation), args)
        return self._compute(operation, args[0], args[-1])

    def _compute(self, operation: int, left: int, right: int) -> int:
        """Emit an operation on two registers; return the register of its result."""
        self.delta_columns = None
        result = self._new_register()
        self._emit(operation, left, right, result)
        return result

    def _new_register(self, value: int = 0) -> int:
        """Return a new register."""
        self.registers.append(value)
        return len(self.registers) - 1
