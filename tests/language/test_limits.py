"""Programs that would grow without bounds: one error at its place, soon, and what to do."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.mutants import programs, random_mutant, trouble
from semi_naive import EvaluationError, Program, ProgramError

SHORT = [text for text in programs() if len(text) < 3000]

DECLARED = ".decl r(x: number)\n.output r\n.decl a(x: number)\na(1).\n"
DOUBLED = "\n".join(["#define A0 1, 1", *(f"#define A{i} A{i - 1}, A{i - 1}" for i in range(1, 40))])
INSTANCES = "".join(f".comp A{i} {{ .init x = A{i + 1} .init y = A{i + 1} }}\n" for i in range(30))
CHAIN = ".type T0 <: number\n" + "".join(f".type T{i} = T{i - 1} | T{i - 1}\n" for i in range(1, 400))


@pytest.mark.parametrize(
    "text, line, said, hint",
    [
        (
            f"{DECLARED}r(1) :- {', '.join(['(a(1); a(2))'] * 20)}.",
            5,
            "The disjunctions make 1,048,576 clauses",
            "relations of their own",
        ),
        (
            f"{DECLARED}r(1) :- {', '.join(['[1, 2] != [3, 4]'] * 40)}.",
            5,
            "The disjunctions make 1,099,511,627,776",
            "relations of",
        ),
        (f"{DECLARED}r(1) :- {'(' * 9000}a(1).", 5, "syntax error in brackets that are nested", "name a part of"),
        (f"{DOUBLED}\n{DECLARED}r(A39).", 45, "macro A39 expands to more than 2,000 tokens", ""),
        (f"{INSTANCES}.comp A30 {{}}\n.init a = A0", None, "10,000 instances are the most", "instances of instances multiply"),
        (f"{DECLARED}r({'9' * 5000}).", 5, "Number constant", "a number is between -9223372036854775808 and"),
        (CHAIN, None, "Type T100 is 101 definitions away from a predefined type", "100 are the most"),
    ],
)
def test_a_program_that_grows(text, line, said, hint, monkeypatch):
    monkeypatch.setattr("semi_naive.language.parsing.macros.MAX_MACRO_TOKENS", 2000)
    with pytest.raises(ProgramError) as caught:
        Program(text, "p.dl")
    [problem] = [each for each in caught.value.problems if said in each.message]
    assert hint in problem.hint and problem.span.file == "p.dl" and line in (None, problem.span.line)


@pytest.mark.parametrize("how", ["#include", ".include"])
def test_files_that_include_two_others_each(tmp_path, how, monkeypatch):
    for i in range(30):
        (tmp_path / f"f{i}.dl").write_text(f'{how} "f{i + 1}.dl"\n' * 2)
    (tmp_path / "f30.dl").write_text("")
    monkeypatch.setattr("semi_naive.language.parsing.preprocess.MAX_FILES", 100)
    with pytest.raises(ProgramError, match="more than 10,000 files are included in file .*f29.dl at line"):
        Program.from_file(tmp_path / "f0.dl")


def test_long_programs():
    """A thousand relations in a row, and a constant of a megabyte: what is not linear shows in the tests' time."""
    row = "".join(f".decl r{i}(x: number)\nr{i}(x) :- r{i - 1}(x).\n" for i in range(1, 1000))
    text = f'.decl r0(x: number)\nr0(7).\n{row}.output r999\n.decl s(x: symbol)\n.output s\ns("{"x" * 1_000_000}").\n'
    compiled = Program(text).compile(only_outputs=True)
    assert len(compiled.strata) == 1001 and len(compiled.program.rules) == 1001


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.randoms(use_true_random=False).map(lambda random: random_mutant(random, SHORT)))
def test_mutants_of_programs(tmp_path, text):
    assert trouble(text, tmp_path) is None


def chain(body: str, length: int = 30) -> str:
    """A chain of inline relations, each of which reads the one before in a body."""
    rules = (f".decl r{i}(x: number) inline\nr{i}(x) :- {body.format(before=f'r{i - 1}')}.\n" for i in range(1, length + 1))
    return f".decl r0(x: number)\nr0(1). r0(2).\n{''.join(rules)}.decl q(x: number)\n.output q\nq(x) :- r{length}(x).\n"


def test_atoms_that_are_alike_are_one_after_inlining():
    with Program(chain("{before}(x), {before}(x)")).run() as result:
        assert result["q"].to_set() == {(1,), (2,)}


def test_inline_relations_that_double():
    with pytest.raises(ProgramError, match="Inlining makes more than 10,000 atoms of this clause.*line 65"):
        Program(chain("{before}(x), {before}(y), x <= y"))
    text = chain("{before}(x), {before}(y), x <= y", 11)  # more than are put in: some of them are computed
    with Program(text).run() as result:
        assert result["q"].to_set() == {(1,), (2,)}


def test_a_body_of_a_thousand_atoms():
    path = ", ".join(f"e(x{i}, x{i + 1})" for i in range(1000))
    text = f".decl e(x: number, y: number)\n.decl r(x: number)\n.output r\ne(1, 1).\nr(x0) :- {path}."
    with Program(text).run() as result:
        assert result["r"].to_list() == [(1,)]


def test_numbers_of_an_order_may_be_binary():
    text = ".decl e(x: number, y: number)\ne(1, 1). e(2, 1).\n.output e\ne(y, z) :- e(x, y), e(y, z).\n.plan 0: (0x2, 0b1)"
    with Program(text).run() as result:
        assert result["e"].count() == 2


def test_a_functor_that_raises_the_end_of_an_iteration():
    def stop(x):
        raise StopIteration

    text = ".functor f(x: number): number\n.decl a(x: number)\n.output a\na(@f(1))."
    with pytest.raises(EvaluationError, match=r"@f\(1\): StopIteration"):
        Program(text, functors={"f": stop}).run()
