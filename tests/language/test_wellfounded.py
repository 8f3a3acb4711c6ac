"""Negation in recursion under `.semantics wellfounded`: against the definition on ground rules, in every way to run."""

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import Program, ProgramError

GAME = """
.semantics wellfounded
.decl move(x: number, y: number)
.input move
.decl win(x: number)
.output win
.output win.undefined
win(x) :- move(x, y), !win(y).
"""
DOMAIN = range(4)
HEADS = {"p": "p(X)", "q": "q(X)", "r": "r(X, Y)"}
LITERALS = ["p(X)", "p(Y)", "q(X)", "q(Y)", "r(X, Y)", "r(Y, X)", "r(X, X)"]
DECLARED = """
.semantics wellfounded
.decl e(x: number, y: number)
.input e
.decl p(x: number)
.input p
.decl q(x: number)
.decl r(x: number, y: number)
.decl over(x: number)
.decl calm(x: number)
.output p, q, r, over, p.undefined, q.undefined, r.undefined, over.undefined, calm
over(x) :- e(x, _), !p(x).
over(y) :- over(x), e(x, y), !r(x, y).
calm(x) :- e(x, _), !over.undefined(x), p.certain(x).
"""


@st.composite
def normal_programs(draw):
    """(rules, edges, facts of p): rules are (head, body), with a literal as (text, whether it is negated)."""
    literals = st.tuples(st.sampled_from(LITERALS), st.booleans())
    rules = draw(
        st.lists(st.tuples(st.sampled_from("pqr"), st.lists(literals, min_size=1, max_size=3)), min_size=1, max_size=5)
    )
    edges = draw(st.sets(st.tuples(st.sampled_from(DOMAIN), st.sampled_from(DOMAIN)), max_size=8))
    return rules, edges, draw(st.sets(st.sampled_from(DOMAIN), max_size=1))


def text_of(rules) -> str:
    lines = [f"{HEADS[head]} :- e(X, Y), {', '.join('!' * no + literal for literal, no in body)}." for head, body in rules]
    return DECLARED + "\n".join(lines)


def model(rules, edges, facts) -> tuple[set, set]:
    """(true, possible) ground atoms, by the definition: the least fixpoint of all ground rules, again and again."""
    rules = [
        *((HEADS[head], [("e(X, Y)", False), *body]) for head, body in rules),
        ("over(X)", [("e(X, Y)", False), ("p(X)", True)]),
        ("over(Y)", [("over(X)", False), ("e(X, Y)", False), ("r(X, Y)", True)]),
    ]
    ground = []
    for x, y in product(DOMAIN, DOMAIN):
        for head, body in rules:
            put = [(at(literal, x, y), no) for literal, no in body]
            ground.append((at(head, x, y), [a for a, no in put if not no], [a for a, no in put if no]))
    given = {("e", x, y) for x, y in edges} | {("p", x) for x in facts}

    def least(against):
        found, growing = set(given), True
        while growing:
            more = {head for head, yes, no in ground if found.issuperset(yes) and not against.intersection(no)}
            growing = not more <= found
            found |= more
        return found

    true = given
    while True:
        possible = least(true)
        if (more := least(possible)) == true:
            return true, possible
        true = more


def at(literal: str, x: int, y: int) -> tuple:
    name, _, args = literal.rstrip(")").partition("(")
    return (name, *({"X": x, "Y": y}[arg] for arg in args.split(", ")))


def expected(rules, edges, facts) -> dict[str, set]:
    true, possible = model(rules, edges, facts)
    found = {name: {atom[1:] for atom in true if atom[0] == name} for name in ("p", "q", "r", "over")}
    unsure = {f"{name}.undefined": {a[1:] for a in possible - true if a[0] == name} for name in ("p", "q", "r", "over")}
    calm = {(x,) for x, _ in edges if ("p", x) in true and (x,) not in unsure["over.undefined"]}
    return found | unsure | {"calm": calm}


def contents(result) -> dict[str, set]:
    names = [*(name + more for name in ("p", "q", "r", "over") for more in ("", ".undefined")), "calm"]
    return {name: result[name].to_set() for name in names}


def ones(answer) -> set:
    return {x for (x,) in answer.to_list()}


@settings(max_examples=150, **SETTINGS)
@given(normal_programs(), st.sampled_from([0, 50_000]))
def test_random_programs_have_their_well_founded_model(machine, case, small_delta):
    rules, edges, facts = case
    with Program(text_of(rules)).run({"e": sorted(edges), "p": sorted((x,) for x in facts)}, small_delta=small_delta) as result:
        assert contents(result) == expected(*case)


@settings(max_examples=25, **SETTINGS)
@given(normal_programs(), st.sampled_from([{}, {"replicate_bytes": 0}, {"buckets": 4, "run_ahead": 0}]))
def test_and_on_the_partitions(here, case, options):
    rules, edges, facts = case
    given = {"e": sorted(edges), "p": sorted((x,) for x in facts)}
    with Program(text_of(rules)).run(given, here, local_tuples=0, **options) as result:
        assert contents(result) == expected(*case)


@settings(max_examples=40, **SETTINGS)
@given(normal_programs(), st.data())
def test_and_in_sessions(case, data):
    rules, edges, facts = case
    given = {"e": sorted(edges), "p": sorted((x,) for x in facts)}
    with Program(text_of(rules)).session(given) as session:
        assert contents(session) == expected(*case)
        for _ in range(3):
            edge = data.draw(st.tuples(st.sampled_from(DOMAIN), st.sampled_from(DOMAIN)))
            with session.transaction() as change:
                (change.delete if edge in edges else change.insert)("e", [edge])
                if data.draw(st.booleans()):
                    (change.delete if 1 in facts else change.insert)("p", [(1,)])
                    facts = facts ^ {1}
            edges = edges ^ {edge}
            assert contents(session) == expected(rules, edges, facts)


def test_facts_of_a_relation_whose_rules_make_nothing_are_known():
    """No rule leads from what is possible to what is true, and what reads either is declared, and was evaluated, before it."""
    text = """
    .semantics wellfounded
    .decl over(x: number)
    .output over
    .decl e(x: number, y: number)
    .input e
    .decl p(x: number)
    .input p
    .decl none(x: number, y: number)
    over(x) :- e(x, _), !p(x).
    p(x) :- e(x, y), none(x, y), !p(y).
    """
    program, facts = Program(text), {"e": [(1, 2), (3, 4)], "p": [(0,), (1,)]}
    with program.run(facts) as result, program.session(facts) as session:
        assert ones(result["over"]) == ones(session["over"]) == {3}
        session.insert("e", [(0, 0)])
        assert ones(session["over"]) == {3}


def test_a_chain_takes_a_round_for_every_other_position():
    with Program(GAME).run({"move": [(n, n + 1) for n in range(200)] + [(300, 301), (301, 300)]}) as result:
        assert ones(result["win"]) == set(range(1, 200, 2))
        assert ones(result["win.undefined"]) == {300, 301}
        (entry,) = [each for each in result.trace["strata"] if "win" in each["relations"]]
        assert entry["rounds"] == 101


def test_undefined_tuples_that_are_not_written_are_told(caplog):
    program = Program(GAME.replace(".output win.undefined\n", ""))
    with program.run({"move": [(1, 1), (2, 1)]}) as result:
        assert result["win.undefined"].count() == 2
    assert caplog.messages == ["win has 2 undefined tuples, which are not written: .output win.undefined writes them"]
    with program.run({"move": [(1, 2)]}):
        assert len(caplog.messages) == 1


def test_only_outputs_and_a_directory_that_is_opened_again(tmp_path):
    moves = [(1, 2), (2, 1), (2, 3), (3, 4)]
    with Program(GAME).run({"move": moves}, only_outputs=True) as result:
        assert (ones(result["win"]), ones(result["win.undefined"])) == ({3}, {1, 2})
    with Program(GAME).session({"move": moves}, path=tmp_path / "state") as session:
        session.insert("move", [(4, 5)])
    with Program(GAME).session(path=tmp_path / "state") as session:
        assert ones(session["win"]) == {2, 4}
        session.delete("move", [(4, 5), (2, 3)])
        assert (ones(session["win"]), ones(session["win.undefined"])) == ({3}, {1, 2})


def test_a_component_may_say_so_and_inline_relations_are_looked_through():
    text = """
    .comp Game {
        .decl move(x: number, y: number)
        .decl lost(x: number) inline
        .decl win(x: number) inline
        lost(x) :- !win(x), move(_, x).
        win(x) :- move(x, y), lost(y).
    }
    .init a = Game
    .input a.move
    .decl out(x: number)
    .output out
    out(x) :- a.win(x).
    """
    with pytest.raises(ProgramError, match=r"write \.semantics wellfounded"):
        Program(text.replace(" inline", ""))
    with pytest.raises(ProgramError, match="Cannot inline cyclically dependent"):
        Program(".semantics wellfounded" + text)
    with Program(".semantics wellfounded" + text.replace("win(x: number) inline", "win(x: number)")).run(
        {"a.move": [(1, 2)]}
    ) as r:
        assert ones(r["out"]) == {1}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (".decl n(c: number)  n(c) :- c = count : { win(_) }.", "win may have undefined tuples, and so cannot be aggregated"),
        (".decl n(c: number)  n(min(x)) :- win(x).", "n may have undefined tuples, and so cannot have a head with min"),
        (".limitsize win(n=3)", "win may have undefined tuples, and so cannot have a .limitsize"),
        (
            ".decl n(c: number)  n(autoinc()) :- win(_).",
            r"n may have undefined tuples, and so cannot be counted by autoinc\(\)",
        ),
        ("win(x) :- win.undefined(x).", "Unable to stratify"),
        ("win.undefined(1).", "win.undefined cannot have tuples of its own"),
        (".input win.certain", "win.certain cannot have tuples of its own"),
        (".semantics stable", "Unknown semantics stable"),
    ],
)
def test_what_has_no_meaning_is_an_error(more, message):
    with pytest.raises(ProgramError, match=message):
        Program(GAME + more)


def test_large_games_have_the_model_of_the_definition():
    """Solved backwards, position by position, as chess players do."""
    draw = random.Random(7)
    moves = {(draw.randrange(3_000), draw.randrange(3_000)) for _ in range(4_000)}
    after = {}
    for x, y in moves:
        after.setdefault(x, set()).add(y)
    value = {}
    changed = True
    while changed:
        changed = False
        for x in {each for move in moves for each in move} - value.keys():
            found = [value.get(y) for y in after.get(x, ())]
            if "lost" in found or all(each == "won" for each in found):
                value[x], changed = "won" if "lost" in found else "lost", True
    with Program(GAME).run({"move": sorted(moves)}) as result:
        assert ones(result["win"]) == {x for x, each in value.items() if each == "won"}
        assert ones(result["win.undefined"]) == after.keys() - value.keys()
