"""The passes over rules: what becomes of programs (fixtures/*.txt), and that they still mean the same."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.oracle import solve
from bench.fuzz.rounds import random_cases
from bench.fuzz.texts import datalog
from semi_naive import Program
from semi_naive.language import compile_text
from semi_naive.planning import rewrite
from semi_naive.planning.rewriting.classes import keep_classes
from semi_naive.planning.rewriting.common_subjoins import share
from semi_naive.planning.rewriting.early_aggregates import aggregate_early
from semi_naive.planning.rewriting.inline import inline
from semi_naive.planning.rewriting.kept_steps import drop_unread_steps
from semi_naive.planning.rewriting.magic import magic
from semi_naive.planning.rewriting.products import factor
from semi_naive.planning.rewriting.simplify import simplify
from semi_naive.planning.rewriting.split_joins import halve
from semi_naive.planning.rewriting.static_joins import join_static
from semi_naive.ra import ir

FIXTURES = Path(__file__).parent / "fixtures"
GIVEN = ".decl e(x: number, y: number)\n.input e\n.decl f(x: number, y: number)\n.input f\n"
PASSES = {
    "simplify": lambda program: simplify(program, keep=set()),
    "inline": inline,
    "magic": magic,
    "share": share,
    "halve": halve,
    "static": join_static,
    "factor": factor,
    "steps": lambda program: program,  # by the checks: without it these rules cannot be ordered
    "kept steps": lambda program: drop_unread_steps(program, set()),
    "classes": lambda program: keep_classes(program, wanted(program), ()),
    "early": aggregate_early,
}


def wanted(program: ir.Program) -> set[str]:
    return {directive.relation for directive in program.directives if directive.kind == "output"}


def cases(all_of_them: bool = True) -> list:
    """The cases, or those which the oracle can work out as they are written."""
    found = []
    for name in PASSES:
        for case in (FIXTURES / f"{name}.txt").read_text().split("\n== ")[1:]:
            title, _, text = case.partition("\n")
            if all_of_them or "[text only]" not in title:
                found.append(pytest.param(name, *text.strip().split("\n----\n"), id=f"{name}: {title}"))
    return found


@pytest.mark.parametrize("name, before, after", cases())
def test_a_program_becomes(name, before, after):
    made = PASSES[name](compile_text(GIVEN + before))
    assert "\n".join(map(str, made.rules)) == after
    assert {rule.head.relation for rule in made.rules} <= made.relations.keys()


PAIRS = st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12)


@pytest.mark.parametrize("name, before, after", cases(all_of_them=False))
@settings(max_examples=20, deadline=None)
@given(e=PAIRS, f=PAIRS)
def test_what_a_program_becomes_means_the_same(name, before, after, e, f):
    program = compile_text(GIVEN + before)
    same_results(program, PASSES[name](program), {"e": e, "f": f})


def same_results(before: ir.Program, after: ir.Program, facts: dict) -> None:
    """The wanted relations are there, and all that are left have the tuples they had."""
    expected, found = (
        solve(before, facts),
        solve(after, {name: rows for name, rows in facts.items() if name in after.relations}),
    )
    assert wanted(before) <= after.relations.keys()
    for name in before.relations.keys() & after.relations.keys():
        same = found[name] == expected[name]
        assert same, f"{name}: {expected[name] ^ found[name]}\n{datalog(before, facts)}\nbecame\n{datalog(after, {})}"


def marked(case, random) -> ir.Program:
    """The program, of which one or two relations are wanted, some may be inlined, and bodies are there twice."""
    program = case.checked
    derived = [name for name in program.relations if name not in case.facts and "@" not in name]
    wanted = set(random.choices(derived, k=random.randint(1, 2)))
    chosen = [each for rule in program.rules if program.relations[rule.head.relation].choice for each in rule.body]
    fixed = {node.relation for node in rewrite.walk(chosen) if isinstance(node, ir.Atom)}  # a choice depends on how many rules
    inlined = {name for name in derived if random.randrange(3) == 0} - wanted - fixed
    relations = {
        name: replace(relation, qualifiers=relation.qualifiers | {"inline"}) if name in inlined else relation
        for name, relation in program.relations.items()
    }
    directives = [directive for directive in program.directives if directive.kind == "input"]
    directives += [ir.FileDirective("output", name) for name in sorted(wanted)]
    twice = replace(program, relations=relations, directives=directives, pragmas={"magic-transform": "*"})
    for i, rule in enumerate(rule for rule in program.rules if "@" not in rule.head.relation):
        twice = _again(twice, i, rule)
    return twice


def _again(program: ir.Program, number: int, rule: ir.Rule) -> ir.Program:
    """With the rule's body once more, for another relation of one of its variables, by other names."""
    renamed = rewrite.rename_apart(rule, set())
    bound = [arg for atom in rewrite.positive_atoms(renamed.body) for arg in atom.args if isinstance(arg, ir.Var)]
    if len(rewrite.positive_atoms(rule.body)) < 2 or not bound:
        return program
    name, type_ = f"again{number}", ir.Type(bound[0].kind.value, bound[0].kind)
    relation = ir.Relation(name, (("a", type_),))
    made = replace(renamed, head=ir.Atom(name, (bound[0],)), body=renamed.body[::-1])
    return replace(program, relations=program.relations | {name: relation}, rules=[*program.rules, made])


ALL = ("inline", "simplify", "magic", "simplify", "share")


@random_cases(60)
def test_random_programs_mean_the_same(case, random):
    """After each pass, and after all of them."""
    program = marked(case, random)
    for names in (("simplify",), ("inline",), ("magic",), ("share",), ("classes",), ALL, (*ALL, "classes")):
        made = program
        for name in names:
            made = PASSES[name](made)
        same_results(program, made, case.facts)


def test_relations_are_kept_when_asked_for_and_given_ones_may_have_tuples():
    text = ".decl a(x: number)\n.decl b(x: number)\n.decl c(x: number)\n.output a\na(x) :- b(x).\nc(x) :- b(x)."
    program = compile_text(text)
    assert [str(rule) for rule in simplify(program, keep=set()).rules] == []
    assert list(simplify(program, keep=None).relations) == ["a", "b", "c"]
    assert [str(rule) for rule in simplify(program, keep=set(), given={"b"}).rules] == ["a(x) :- b(x)."]
    assert [str(rule) for rule in simplify(program, keep={"c"}, given={"b"}).rules] == ["a(x) :- b(x).", "c(x) :- b(x)."]


def test_negated_with_a_variable_of_its_own_a_relation_is_not_inlined():
    """The checks refuse this, as Soufflé does: what it means is clear all the same."""
    program = compile_text(
        GIVEN + ".decl a(x: number)\n.decl has(x: number)\nhas(x) :- e(x, y), f(y, _).\na(x) :- f(x, _), !has(x)."
    )
    has = replace(program.relations["has"], qualifiers=frozenset({"inline"}))
    program = replace(program, relations=program.relations | {"has": has})
    assert inline(program) is program


def test_magic_leaves_what_is_kept():
    text = GIVEN + ".decl p(x: number) magic\n.decl a()\n.output a\np(x) :- e(x, _).\na() :- p(1)."
    program = compile_text(text)
    assert "p" not in magic(program).relations
    assert magic(program, keep={"p"}) is program


def test_each_made_rule_tells_where_it_is_from():
    program = compile_text(GIVEN + (FIXTURES / "magic.txt").read_text().split("\n== ")[1].split("----")[0].partition("\n")[2])
    demands = [rule.text for rule in magic(program).rules if rule.head.relation.endswith(".demand")]
    assert demands and all(text.startswith("demand of path(") for text in demands)


def test_autoinc_is_not_multiplied():
    """A rule with autoinc gives a tuple for each way to satisfy its body: shared, the body has fewer ways."""
    text = ".decl a(x: number, y: number)\n.decl b(x: number)\na(x, autoinc()) :- e(x, y), f(y, _).\nb(x) :- e(x, y), f(y, _)."
    program = compile_text(GIVEN + text)
    assert share(program) is program


def test_a_variable_named_as_fields_are_keeps_its_value():
    """The inlined variable `field` becomes field.1, a name that the compiler of bodies also gives to fields of records."""
    text = """
        .type R = [n: number, m: number]
        .decl e(x: number, y: number)
        .decl r(x: number, p: R)
        .decl two(x: number, y: number) inline
        .decl a(x: number, z: number, n: number)
        .output a
        e(1, 2). e(2, 5). e(5, 6). r(1, [7, 3]). r(2, [8, 4]). r(2, [9, 3]).
        two(x, y) :- e(x, field), e(field, y).
        a(field, z, n) :- e(field, _), two(field, z), r(field, p), p = [n, 3].
    """
    with Program(text).run() as result:
        assert sorted(result["a"].to_list()) == [(1, 5, 7), (2, 6, 9)]
