"""Functors, constraints and ranges over columns, on values worked out by hand."""

import math

import numpy as np
import pyarrow as pa
import pytest
from counted import python_calls
from hypothesis import given
from hypothesis import strategies as st

from bench.fuzz.operators import substr
from semi_naive import Program
from semi_naive.ra import ir
from semi_naive.ra.expressions import arithmetic, patterns
from semi_naive.ra.expressions.patterns import BadRegularExpression, compile_pattern
from semi_naive.ra.expressions.ranges import range_counts, range_values
from semi_naive.ra.expressions.terms import EvaluationError, evaluate, holds
from semi_naive.ra.expressions.text import FUNCTIONS, TESTS
from semi_naive.ra.ir import Autoinc, Call, Compare, Const, Kind, Pack, Truth, Var, Wild
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.kinds import as_bits, dtype_of, numbers
from semi_naive.ra.values.values import Values

NUMBER, UNSIGNED, FLOAT, SYMBOL = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL
LEAST, MOST = -(2**63), 2**63 - 1
NAN = math.nan


@pytest.fixture
def values():
    return Values(SymbolTable())


def column(data, kind, values):
    if kind == SYMBOL:
        return values.intern(list(data))
    return as_bits(np.array(data, dtype_of(kind)))


def python(ids, kind, values):
    if kind == SYMBOL:
        return values.strings(ids)
    return numbers(ids, kind).tolist()


def call(op, kind, values, *args, kinds=None):
    """op of columns given as lists of Python values, as a list."""
    kinds = kinds or [kind] * len(args)
    names = [Var(f"v{i}", k) for i, k in enumerate(kinds)]
    columns = {v.name: column(data, v.kind, values) for v, data in zip(names, args, strict=True)}
    return python(evaluate(Call(op, tuple(names), kind), columns, len(args[0]), values), kind, values)


@pytest.mark.parametrize(
    "op, kind, args, expected",
    [
        ("+", NUMBER, ([MOST, 1], [1, 2]), [LEAST, 3]),
        ("-", NUMBER, ([LEAST], [1]), [MOST]),
        ("-", UNSIGNED, ([0], [1]), [2**64 - 1]),
        ("*", NUMBER, ([2**62, 3], [4, -3]), [0, -9]),
        ("/", NUMBER, ([7, -7, 7, -7, LEAST, LEAST], [2, 2, -2, -2, 1, 2]), [3, -3, -3, 3, LEAST, -(2**62)]),
        ("%", NUMBER, ([7, -7, 7, -7, LEAST], [3, 3, -3, -3, -1]), [1, -1, 1, -1, 0]),
        ("/", UNSIGNED, ([2**64 - 1], [2]), [2**63 - 1]),
        ("%", UNSIGNED, ([2**64 - 1], [10]), [5]),
        ("/", FLOAT, ([1.0, 1.0, -1.0], [4.0, 0.0, 0.0]), [0.25, float("inf"), float("-inf")]),
        ("^", NUMBER, ([2, -2, 5, 2, 1, -1, 3], [10, 3, 0, -1, -5, -1, 1]), [1024, -8, 1, 0, 1, -1, 3]),
        ("^", NUMBER, ([3], [39]), [int(3.0**39)]),
        ("^", UNSIGNED, ([2, 10], [63, 2]), [2**63, 100]),
        ("^", FLOAT, ([2.0, 4.0], [-1.0, 0.5]), [0.5, 2.0]),
        ("neg", NUMBER, ([5, LEAST],), [-5, LEAST]),
        ("neg", FLOAT, ([1.5, 0.0, NAN],), [-1.5, 0.0, NAN]),
        ("*", FLOAT, ([0.0, 5e-324, math.inf], [-1.0, -0.5, 0.0]), [0.0, 0.0, NAN]),
        ("band", NUMBER, ([6], [3]), [2]),
        ("bor", NUMBER, ([6], [3]), [7]),
        ("bxor", NUMBER, ([6], [3]), [5]),
        ("bnot", NUMBER, ([0],), [-1]),
        ("bnot", UNSIGNED, ([0],), [2**64 - 1]),
        ("bshl", NUMBER, ([1, 1, 1], [3, 63, 64]), [8, LEAST, 1]),
        ("bshr", NUMBER, ([-8, 8], [1, 65]), [-4, 4]),
        ("bshr", UNSIGNED, ([2**63], [63]), [1]),
        ("bshru", NUMBER, ([-1], [60]), [15]),
        ("land", NUMBER, ([2, 2, 0], [4, 0, 0]), [1, 0, 0]),
        ("lor", NUMBER, ([2, 2, 0], [4, 0, 0]), [1, 1, 0]),
        ("lxor", NUMBER, ([2, 2, 0], [4, 0, 0]), [0, 1, 0]),
        ("lnot", NUMBER, ([0, 7],), [1, 0]),
        ("lnot", UNSIGNED, ([0, 7],), [1, 0]),
        ("min", NUMBER, ([1, 5], [-2, 9], [3, 4]), [-2, 4]),
        ("max", UNSIGNED, ([1], [2**63]), [2**63]),
        ("max", FLOAT, ([-1.0, NAN, 2.0], [-0.5, 1.0, NAN]), [-0.5, NAN, NAN]),
        ("min", FLOAT, ([-1.0, NAN, 2.0], [-0.5, 1.0, NAN]), [-1.0, 1.0, 2.0]),
        ("min", SYMBOL, (["pear", "b"], ["apple", "é"]), ["apple", "b"]),
        ("max", SYMBOL, (["a", "b"], ["ab", "é"], ["aa", "z"]), ["ab", "é"]),
        ("cat", SYMBOL, (["a", ""], ["b", "x"], ["c", "é"]), ["abc", "xé"]),
    ],
)
def test_operators(op, kind, args, expected, values):
    assert repr(call(op, kind, values, *args)) == repr(expected)  # by which 0.0 is not -0.0, and a NaN is itself


@pytest.mark.parametrize(
    "op, source, target, data, expected",
    [
        ("to_number", FLOAT, NUMBER, [2.9, -2.9], [2, -2]),
        ("to_number", UNSIGNED, NUMBER, [2**64 - 1], [-1]),
        ("to_unsigned", NUMBER, UNSIGNED, [-1], [2**64 - 1]),
        ("to_unsigned", FLOAT, UNSIGNED, [1e19, -1.0, 3.7], [10**19, 2**64 - 1, 3]),
        ("to_float", NUMBER, FLOAT, [-3], [-3.0]),
        ("to_float", UNSIGNED, FLOAT, [2**63], [2.0**63]),
        ("to_string", NUMBER, SYMBOL, [-5, 0], ["-5", "0"]),
        ("to_string", UNSIGNED, SYMBOL, [2**64 - 1], [str(2**64 - 1)]),
        ("to_string", FLOAT, SYMBOL, [0.1, 1e10, -2.5e-7], ["0.100000", "10000000000.000000", "-0.000000"]),
        ("to_string", SYMBOL, SYMBOL, ["x"], ["x"]),
        ("to_number", SYMBOL, NUMBER, ["12", " -7", "+3", "4x"], [12, -7, 3, 4]),
        ("to_number", SYMBOL, NUMBER, ["0xcAfe", "-0x10", "-0b101", "0b2", " 0x10"], [51966, -16, -5, 0, 0]),
        ("to_unsigned", SYMBOL, UNSIGNED, [str(2**64 - 1), "0xf"], [2**64 - 1, 15]),
        ("to_float", SYMBOL, FLOAT, ["1.5", "-2e3", ".5"], [1.5, -2000.0, 0.5]),
        ("strlen", SYMBOL, NUMBER, ["", "abc", "é"], [0, 3, 2]),
        ("as", NUMBER, UNSIGNED, [-1], [2**64 - 1]),
    ],
)
def test_conversions(op, source, target, data, expected, values):
    assert call(op, target, values, data, kinds=[source]) == expected


def test_substr_counts_bytes_and_warns_out_of_range(values, capsys):
    starts, lengths = [0, 1, 3, 1, 4, -1], [2, 99, 5, -1, 1, 1]
    result = call("substr", SYMBOL, values, ["abc"] * 6, starts, lengths, kinds=[SYMBOL, NUMBER, NUMBER])
    assert result == ["ab", "bc", "", "bc", "", ""]
    assert capsys.readouterr().err.count('substr("abc"') == 2


def test_substr_has_whole_characters_only(values):
    starts, lengths = [0, 0, 4, 5, 5, 5], [5, 6, 1, 1, -1, 0]
    result = call("substr", SYMBOL, values, ["straße"] * 6, starts, lengths, kinds=[SYMBOL, NUMBER, NUMBER])
    assert result == ["stra", "straß", "", "", "e", ""]


CUTS = st.tuples(st.text(max_size=6) | st.sampled_from(["naïve", "日本", "abcdefgh"]), st.integers(-1, 9), st.integers(-2, 12))


@given(st.lists(CUTS, min_size=1), st.booleans())
def test_substr_of_many_is_that_of_each(tmp_path_factory, cuts, shared):
    values = Values(SymbolTable())
    if shared:
        values.share(str(tmp_path_factory.mktemp("shared")))
    strings, starts, lengths = (list(each) for each in zip(*cuts, strict=True))
    found = call("substr", SYMBOL, values, strings, starts, lengths, kinds=[SYMBOL, NUMBER, NUMBER])
    assert found == [substr(*each) for each in cuts]
    assert call("strlen", NUMBER, values, found, kinds=[SYMBOL]) == [len(part.encode()) for part in found]


@given(st.lists(st.tuples(CUTS, st.text(max_size=3), st.booleans()), min_size=1), st.booleans(), st.booleans())
def test_a_part_is_compared_without_becoming_a_symbol(tmp_path_factory, rows, shared, swapped):
    values = Values(SymbolTable())
    cuts = [cut for cut, _, _ in rows]
    others = [substr(*cut) if equal else other for cut, other, equal in rows]
    ids = [values.intern(column) for column in ([cut[0] for cut in cuts], others)]
    if shared:
        values.share(str(tmp_path_factory.mktemp("shared")))
    columns = {"s": ids[0], "o": ids[1], "i": np.array([cut[1] for cut in cuts]), "n": np.array([cut[2] for cut in cuts])}
    s, o, i, n = Var("s", SYMBOL), Var("o", SYMBOL), Var("i", NUMBER), Var("n", NUMBER)
    sides = (Call("substr", (s, i, n), SYMBOL), o)
    equal = [substr(*cut) == other for cut, other in zip(cuts, others, strict=True)]
    before = values.nbytes
    for op in ("=", "!="):
        found = holds(Compare(op, *(sides[::-1] if swapped else sides), SYMBOL), columns, len(rows), values)
        assert found.tolist() == [each == (op == "=") for each in equal]
    assert values.nbytes == before


def test_no_python_runs_for_each_substring(values):
    ids, starts = values.intern([f"word {i} of many" for i in range(1000)]), np.arange(100_000) % 9
    rows = [np.tile(ids, 100), starts, np.broadcast_to(np.int64(7), 100_000)]
    FUNCTIONS["substr"](rows, values)  # compiled
    assert python_calls(lambda: FUNCTIONS["substr"](rows, values)) < 1000


@pytest.mark.parametrize(
    "op, kind, args, kinds, message",
    [
        ("/", NUMBER, ([4, 7], [2, 0]), None, r"7 / 0: division by zero"),
        ("%", UNSIGNED, ([7], [0]), None, r"7 % 0: division by zero"),
        ("/", NUMBER, ([LEAST], [-1]), None, "does not fit into 64 bits"),
        ("^", NUMBER, ([10], [30]), None, r"10 \^ 30: does not fit into a 64-bit number"),
        ("^", NUMBER, ([0], [-1]), None, "does not fit"),
        ("to_number", NUMBER, (["1", "zwei"],), [SYMBOL], r'to_number\("zwei"\): this is not a number'),
        ("to_number", NUMBER, ([str(2**63)],), [SYMBOL], "does not fit into a 64-bit number"),
        ("to_unsigned", UNSIGNED, (["-1"],), [SYMBOL], "does not fit into a 64-bit unsigned"),
        ("to_float", FLOAT, (["x"],), [SYMBOL], "this is not a number"),
        ("to_float", FLOAT, (["1e999"],), [SYMBOL], "does not fit into a 64-bit float"),
        ("to_float", FLOAT, (["0x1p5000"],), [SYMBOL], "does not fit into a 64-bit float"),
        ("to_number", NUMBER, ([float("nan")],), [FLOAT], r"to_number\(nan\): does not fit"),
        ("to_unsigned", UNSIGNED, ([2.0**64],), [FLOAT], "does not fit into a 64-bit unsigned"),
    ],
)
def test_what_has_no_value_is_named(op, kind, args, kinds, message, values):
    with pytest.raises(EvaluationError, match=message):
        call(op, kind, values, *args, kinds=kinds)


def test_nothing_is_worked_out_of_no_rows(values):
    zero = Const(0, NUMBER)
    assert evaluate(Call("/", (zero, zero), NUMBER), {}, 0, values).tolist() == []
    text = Const("x", SYMBOL)
    terms = [
        Call("to_number", (text,), NUMBER),
        Call("cat", (text, text), SYMBOL),
        Call("substr", (text, zero, zero), SYMBOL),
        Call("to_string", (zero,), SYMBOL),
        Call("strlen", (text,), NUMBER),
        Call("min", (text, text), SYMBOL),
        Pack((zero, text), "Pair"),
        Autoinc(),
    ]
    for term in terms:
        assert evaluate(term, {}, 0, values).shape == (0,), term
    for literal in [
        Compare("<", text, text, SYMBOL),
        ir.Test("match", (text, text)),
        ir.Test("contains", (text, text)),
        Truth(True),
    ]:
        assert holds(literal, {}, 0, values).shape == (0,), literal


def test_terms_nest_and_constants_repeat(values):
    x = Var("x", NUMBER)
    term = Call("cat", (Call("to_string", (Call("*", (x, Const(2, NUMBER)), NUMBER),), SYMBOL), Const("!", SYMBOL)), SYMBOL)
    assert values.strings(evaluate(term, {"x": np.array([1, 2, 1])}, 3, values)) == ["2!", "4!", "2!"]
    for term in [Const(2**64 - 1, UNSIGNED), Const(0.5, FLOAT), Const(-3, NUMBER)]:
        assert python(evaluate(term, {}, 2, values), term.kind, values) == [term.value] * 2
    assert evaluate(Const(None, Kind.RECORD), {}, 1, values).tolist() == [0]


def test_records_and_autoinc(values):
    x = Var("x", NUMBER)
    pairs = evaluate(Pack((x, Const(9, NUMBER)), "Pair"), {"x": np.array([1, 2, 1])}, 3, values)
    assert pairs.tolist() == [1, 2, 1]
    assert values.fields(pairs, 2).tolist() == [[1, 2, 1], [9, 9, 9]]
    assert evaluate(Pack((), "Unit"), {}, 3, values).tolist() == [1, 1, 1]
    assert evaluate(Autoinc(), {}, 3, values).tolist() == [0, 1, 2]
    assert evaluate(Autoinc(), {}, 1, values).tolist() == [3]


def test_a_wildcard_has_no_value(values):
    with pytest.raises(TypeError, match="may only stand in an atom"):
        evaluate(Wild(), {}, 1, values)


@pytest.mark.parametrize(
    "op, kind, left, right, expected",
    [
        ("<", NUMBER, [-1, 2], [1, 2], [True, False]),
        ("<", UNSIGNED, [2**64 - 1], [1], [False]),
        (">=", FLOAT, [-0.5, 1.0], [-1.5, 2.0], [True, False]),
        ("=", FLOAT, [0.0, NAN, NAN, 1.0], [-0.0, -NAN, 1.0, NAN], [True, True, False, False]),
        ("!=", FLOAT, [0.0, NAN, NAN, 1.0], [-0.0, -NAN, 1.0, NAN], [False, False, True, True]),
        ("<", FLOAT, [-0.0, NAN, 1.0, NAN, -1.5], [0.0, -NAN, NAN, math.inf, -1.25], [False, False, True, False, True]),
        (">=", FLOAT, [-0.0, NAN, 1.0, NAN, -math.inf], [0.0, -NAN, NAN, math.inf, -1e308], [True, True, False, True, False]),
        ("!=", SYMBOL, ["a", "b"], ["a", "a"], [False, True]),
        ("<", SYMBOL, ["b", "a", "Z", "z"], ["a", "ab", "a", "é"], [False, True, True, True]),
        ("<=", SYMBOL, ["b", "b"], ["b", "a"], [True, False]),
        (">", SYMBOL, ["😀"], ["\uffff"], [True]),
    ],
)
def test_comparisons_by_kind(op, kind, left, right, expected, values):
    columns = {"l": column(left, kind, values), "r": column(right, kind, values)}
    literal = Compare(op, Var("l", kind), Var("r", kind), kind)
    assert holds(literal, columns, len(left), values).tolist() == expected


def satisfied(op, pattern, strings, values, negated=False):
    columns = {"s": values.intern(strings)}
    literal = ir.Test(op, (Const(pattern, SYMBOL), Var("s", SYMBOL)), negated)
    return holds(literal, columns, len(strings), values).tolist()


def test_match_is_of_the_whole_string(values):
    assert satisfied("match", "a.*", ["abc", "ba", "a"], values) == [True, False, True]
    assert satisfied("match", "a.*", ["abc", "ba"], values, negated=True) == [False, True]


def test_of_a_bad_pattern_nothing_holds_and_a_warning_says_so(values, capsys):
    assert satisfied("match", "(", ["(", "a"], values) == [False, False]
    assert satisfied("match", "(", ["("], values, negated=True) == [False]
    assert capsys.readouterr().err.count("wrong pattern") == 2


def test_contains(values):
    assert satisfied("contains", "b", ["abc", "", "b"], values) == [True, False, True]
    assert satisfied("contains", "", ["x"], values) == [True]
    assert satisfied("contains", "b", ["abc", "x"], values, negated=True) == [False, True]


@given(st.lists(st.sampled_from(["", "a", "b", "é", "ab"]), min_size=1), st.booleans())
def test_contains_of_many_strings(needles, negated):
    """Few different needles among many strings, and as many as there are strings."""
    values, wholes = Values(SymbolTable()), [f"{i % 37}{'abé'[i % 3] * (i % 2)}b{i}" for i in range(100)]
    pairs = (
        [(part, whole) for part in needles for whole in wholes]
        if len(needles) < 4
        else list(zip(needles, wholes, strict=False))
    )
    found = TESTS["contains"](*(values.intern(list(each)) for each in zip(*pairs, strict=True)), negated, values)
    assert found.tolist() == [(part in whole) != negated for part, whole in pairs]


@pytest.mark.parametrize(
    "pattern, matching, other",
    [
        ("[[:digit:]]{2,3}", "123", "1"),
        ("[^[:space:]]+", "ab", "a b"),
        ("[[]x[^]", "[xa", "[x"),
        (r"\d+\.\d*", "12.", "12"),
        ("a|bc", "bc", "ac"),
        ("(?:ab)+?", "abab", "aba"),
        (r"(a+)b\1", "aabaa", "aaba"),
        ("(?=a)[a-c]b", "ab", "bb"),
        ("^ab$", "ab", "ab\n"),
        ("x.y", "x-y", "x\ny"),
        ("]}", "]}", "]"),
        (r"\x41\/", "A/", "A"),
        ("a[-x]b", "a-b", "ayb"),
        ("..", "é", "e"),
        ("[a&&b~~|]", "&", "c"),
    ],
)
def test_patterns_as_ecmascript_writes_them(pattern, matching, other):
    assert patterns.matching(pattern, pa.array([matching, other])).tolist() == [True, False]
    assert compile_pattern(pattern).fullmatch(matching.encode())
    assert not compile_pattern(pattern).fullmatch(other.encode())


PIECES = [
    "a",
    "b",
    "é",
    ".",
    "[ab]",
    "[^a]",
    r"\s",
    r"\S",
    r"[\S]",
    r"[^\s]",
    r"\w",
    r"\W",
    r"\d",
    r"[\D]",
    r"\b",
    r"\B",
    "^",
    "$",
    "|",
    "(",
    ")",
]
PIECES += [
    "*",
    "+",
    "?",
    "{2}",
    "{1,2}",
    "*?",
    "[[:space:]]",
    "[[:punct:]-]",
    "[]",
    "[^]",
    r"\v",
    r"\0",
    r"\x41",
    "-",
    r"\-",
    "#",
    " ",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=7).map("".join), st.lists(st.text("abé \v\n\r\0A-#1_", max_size=6), max_size=8)
)
def test_patterns_match_the_same_with_and_without_re2(pattern, strings):
    try:
        expression = compile_pattern(pattern)
    except BadRegularExpression:
        return
    expected = [bool(expression.fullmatch(string.encode())) for string in strings]
    assert patterns.matching(pattern, pa.array(strings, pa.string())).tolist() == expected


def test_patterns_that_are_tried_in_many_ways(values, monkeypatch):
    assert patterns.matching("(a+)+b", pa.array(["a" * 100_000, "a" * 99 + "b"])).tolist() == [False, True]
    monkeypatch.setattr(patterns, "MAX_SECONDS", 0.05)
    expression, string = values.intern([r"(a+)+\1b"]), values.intern(["a" * 40])
    with pytest.raises(EvaluationError, match="matching takes more than 0.05 s; without back references"):
        TESTS["match"](expression, string, False, values)


@pytest.mark.parametrize("cores", [1, 2])
def test_a_pattern_that_takes_too_long_is_given_up_on_every_number_of_cores(monkeypatch, cores):
    """Only the main thread can be: such a rule is not cut into slices for threads."""
    monkeypatch.setattr(patterns, "MAX_SECONDS", 0.05)
    monkeypatch.setattr("semi_naive.running.relations.cluster.cpus", lambda: cores)
    text = '.decl s(x: symbol)\n.input s\n.decl m(x: symbol)\n.output m\nm(x) :- s(x), match("(a+)+b(?=c)c", x).'
    with pytest.raises(EvaluationError, match="matching takes more than 0.05 s"):
        Program(text).run({"s": [("a" * 40 + str(i),) for i in range(3000)]})


@pytest.mark.parametrize("pattern", ["(", "[a", "*a", "a\\", "(?<n>a)", "[[:what:]]", "[z-a]", "{2}", "a)"])
def test_what_is_no_pattern(pattern):
    with pytest.raises(BadRegularExpression):
        compile_pattern(pattern)


def test_ranges():
    def expanded(kind, dtype, *columns):
        start, stop, step = (np.array(column, dtype) for column in (*columns, *[[]] * (3 - len(columns))))
        step, counts = range_counts(kind, start, stop, step if step.size else None)
        rows = np.repeat(np.arange(start.size), counts)
        values = range_values(start, step, rows, np.concatenate([np.arange(count) for count in counts]))
        return rows.tolist(), values.view(dtype).tolist()

    assert expanded(NUMBER, np.int64, [0, 3, 2, 9], [5, 0, 2, 0], [2, -2, 1, 1]) == ([0, 0, 0, 1, 1], [0, 2, 4, 3, 1])
    assert expanded(NUMBER, np.int64, [5, 5], [7, 5], [0, 0]) == ([0], [5])
    wide = [MOST - 1, LEAST], [MOST, MOST], [5, MOST]
    assert expanded(NUMBER, np.int64, *wide) == ([0, 1, 1, 1], [MOST - 1, LEAST, -1, MOST - 1])
    assert expanded(UNSIGNED, np.uint64, [3, 1], [1, 3]) == ([0, 0, 1, 1], [3, 2, 1, 2])
    assert expanded(UNSIGNED, np.uint64, [3, 1], [1, 3], [1, 2**64 - 1]) == ([1], [1])  # a step that is given leads upward
    assert expanded(FLOAT, np.float64, [0.0], [2.0], [0.75]) == ([0, 0, 0], [0.0, 0.75, 1.5])
    with pytest.raises(EvaluationError, match=r"range\(0, 1000000000001, 1\): it has more than 1,000,000,000,000 values"):
        expanded(NUMBER, np.int64, [0], [10**12 + 1])


def test_parts_that_do_not_depend_on_a_range_are_computed_once_for_each_binding(monkeypatch):
    sizes = []
    bor = arithmetic.OPERATORS["bor"]
    monkeypatch.setitem(arithmetic.OPERATORS, "bor", lambda kind, *args: sizes.append(args[0].size) or bor(kind, *args))
    program = """
    .decl p(n: number, x: number, y: number)
    .input p
    .decl q(n: number, i: number)
    .output q
    q(n, i) :- p(n, x, y), i = range(0, n), i band (x bor y) = i, i != 7 / x.
    """
    facts = [(n, n % 8, n % 3) for n in range(100) if n % 8 or n == 0]  # a division by 0 is never made: the range is empty
    with Program(program).run({"p": facts}) as result:
        assert result["q"].to_set() == {(n, i) for n, x, y in facts for i in range(n) if i & (x | y) == i and i != 7 // x}
    assert sum(sizes) == len(facts)


@pytest.mark.parametrize("options", [{}, {"small_delta": 10**6}, {"small_delta": 0}])
def test_ranges_of_unsigned_lead_down_in_recursion(options, machine):
    text = """
    .decl a(x: unsigned, n: number)
    a(18446744073709551615, 0).  a(20, 0).
    a(y, n + 1) :- a(x, n), n < 2, y = range(x - 1, x - 4).
    a(y, n + 1) :- a(x, n), x > 100, n < 1, y = range(x, 1, 9).
    .output a
    """
    top, found = 2**64 - 1, {(2**64 - 1, 0), (20, 0)}
    for n in (0, 1):
        found |= {(x - k, n + 1) for x, m in found if m == n for k in (1, 2, 3)}
    assert Program(text).run(**options)["a"].to_set() == found and top in {x for x, _ in found}


OPEN = {
    "a(to_string(n)) :- n = range(0, 3).": {"a": {"0", "1", "2"}},
    "a(s) :- s = to_string(to_float(4)).": {"a": {"4.000000"}},
    "a(to_string(x)) :- x = bnot 3.": {"a": {"-4"}},
    "a(to_string(as(n + n, number))) :- n = range(1, 3).": {"a": {"2", "4"}},
    "a(to_string(min(6, 1))).": {"a": {"1"}},
    "a(cat(to_string(n), to_string(m))) :- m = max(n, 2), n = range(1, 4).": {"a": {"12", "22", "33"}},
    "a(to_string(n)), c(n) :- n = range(1, 3).": {"a": {"1", "2"}, "c": {1, 2}},
    "a(to_string(n)), b(n) :- n = range(1, 3).": {"a": {"1.000000", "2.000000"}, "b": {1.0, 2.0}},
    "b(n), c(n) :- n = range(1, 3).": {"b": {1.0, 2.0}, "c": {1, 2}},
    "c(sum n : { b(x), n = to_number(x) }), a(to_string(n)), b(n) :- n = 3.": {"a": {"3.000000"}, "b": {3.0}, "c": {3}},
}


@pytest.mark.parametrize("rule", OPEN)
@pytest.mark.parametrize("around", ["{}", ".comp C {{ {} }}\n.init i = C"])
def test_what_nothing_types_is_a_number_and_heads_are_typed_together(rule, around):
    declared = ".decl a(x: symbol)  .decl b(x: float)  .decl c(x: number)\n"
    prefix = "i." if "comp" in around else ""
    result = Program(around.format(declared + rule)).run()
    for name, values in OPEN[rule].items():
        assert result[prefix + name].to_set() == {(value,) for value in values}


@pytest.mark.parametrize("config", [{}, {"local_tuples": 0, "partitions": 2}])
def test_strings_are_rewritten_as_in_python(config):
    words = ["Straße", " a b\t", "", "AbC-AbC", "日本"]
    text = ".decl w(s: symbol) .input w\n.decl o(s: symbol, l: symbol, u: symbol, t: symbol, r: symbol) .output o\n"
    program = Program(text + 'o(s, lower(s), upper(s), trim(s), replace(s, "b", "--")) :- w(s).')
    found = program.run({"w": words}, **config)["o"].to_list()
    assert sorted(found) == sorted((s, s.lower(), s.upper(), s.strip(), s.replace("b", "--")) for s in words)
