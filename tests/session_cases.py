"""What tests of sessions share: random transactions on sets and on a session, and what a run makes of the same facts."""

import pytest
from datalog_oracle import solve, value
from datalog_programs import VALUES, listing
from hypothesis import HealthCheck, Phase, note
from hypothesis import strategies as st
from paths import PATHS  # noqa: F401

from semi_naive import BadInput, Program
from semi_naive.ra.rules import ir

# Not shrunk: a case that fails prints itself, and is small anyway.
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
SHORTEST = """
.decl edge(x: number, y: number, w: number)
.input edge
.decl distance(y: number, d: number)
.input distance
.output distance
distance(y, min(w)) :- edge(y, y, w).
distance(y, min(d + w)) :- distance(x, d), edge(x, y, w).
distance(y, min(max(d, e))) :- distance(x, d), edge(x, y, 0), distance(y, e).
.decl next(x: number, y: number)
.output next
next(x, y) :- distance(x, d), edge(x, y, w), distance(y, d + w).
.decl far(x: number)
.output far
far(x) :- edge(x, _, _), !distance(x, _).
"""
SAME = """
.decl link(x: number, y: number, w: number)
.input link
.decl same(x: number, y: number) eqrel
.input same
.output same
same(x, y) :- link(x, y, 0).
same(x, z) :- link(x, y, 1), part(y), link(y, z, _).
.decl part(x: number)
.output part
part(y) :- same(1, y), link(y, y, _).
.decl alone(x: number)
.output alone
alone(x) :- link(x, _, _), 2 > count : { same(x, _) }.
"""


@st.composite
def transactions(draw, program: ir.Program, names: list[str]):
    """Some transactions, each a list of (operation, relation, rows)."""
    made = []
    for _ in range(draw(st.integers(1, 5))):
        operations = []
        for _ in range(draw(st.integers(1, 3))):
            relation = program.relations[draw(st.sampled_from(names))]
            row = st.tuples(*(st.sampled_from(VALUES[kind]) for kind in relation.kinds))
            operation = draw(st.sampled_from(["insert", "insert", "insert", "delete", "delete", "upsert", "clear"]))
            operations.append((operation, relation.name, draw(st.lists(row, min_size=1, max_size=3))))
        made.append(operations)
    return made


def refused(program: ir.Program, operation: str, name: str, rows: list) -> bool:
    """Whether an operation would take away what is written in the program."""
    written = {tuple(value(arg, {}) for arg in r.head.args) for r in program.rules if r.head.relation == name and not r.body}
    if operation == "upsert":
        last = {row[:1]: row for row in rows}
        return any(row[:1] in last and row != last[row[:1]] for row in written)
    return operation == "delete" and bool(written & set(rows))


def perform(facts: dict[str, set], operation: str, relation: ir.Relation, rows: list) -> None:
    """An operation, done on sets."""
    now = facts[relation.name]
    if operation == "clear":
        now.clear()
    if operation == "delete":
        now.difference_update(rows)
    if operation == "insert":
        now.update(rows)
    if operation == "upsert":
        for row in rows:
            now.difference_update({other for other in now if other[:1] == row[:1]})
            now.add(row)


def ask(transaction, operation: str, relation: ir.Relation, rows: list) -> None:
    if operation == "clear":
        transaction.clear(relation.name)
    elif operation == "upsert":
        transaction.upsert(relation.name, rows, key=[name for name, _ in relation.attributes[:1]])
    else:
        getattr(transaction, operation)(relation.name, rows)


def folded(told: dict[str, list], contents: dict[str, set]) -> dict[str, set]:
    """Contents after changes: what comes was not there, what goes was."""
    contents = {name: set(rows) for name, rows in contents.items()}
    for name, changes in told.items():
        assert changes and len({row[:-1] for row in changes}) == len(changes)
        for *row, diff in changes:
            assert (tuple(row) in contents[name]) == (diff == -1)
            contents[name] ^= {tuple(row)}
    return contents


def agrees(case, data, **config):
    program, facts = case
    derived = [rule.head.relation for rule in program.rules if "@" not in rule.head.relation]
    also = data.draw(st.sets(st.sampled_from(derived), max_size=2)) if derived else set()
    names = [*facts, *sorted(also)]
    facts = {name: set(facts.get(name, ())) for name in names}
    asked = data.draw(transactions(program, names))
    note(listing(program, facts))
    note(f"{asked}")
    with Program.from_checked(program).session(facts, retain=2, **config) as session:
        past = {}
        contents = {name: session[name].to_set() for name in session}
        seen = {name: contents[name] for name in session.program.outputs}
        assert contents == {name: rows for name, rows in solve(program, facts).items() if name in contents}
        for epoch, operations in enumerate(asked, 1):
            past[epoch - 1] = contents
            with session.transaction() as transaction:
                for operation, name, rows in operations:
                    if refused(program, operation, name, rows):
                        with pytest.raises(BadInput, match="written in the program"):
                            ask(transaction, operation, program.relations[name], rows)
                        continue
                    ask(transaction, operation, program.relations[name], rows)
                    perform(facts, operation, program.relations[name], rows)
            expected = solve(program, facts)
            contents = {name: session[name].to_set() for name in session}
            for name, rows in contents.items():
                assert rows == expected[name], f"{name}: missing {expected[name] - rows}, extra {rows - expected[name]}"
            assert all(session[name].count() == len(rows) for name, rows in contents.items())
            seen = folded({name: list(change) for name, change in transaction.changes.items()}, seen)
            assert seen == {name: contents[name] for name in seen}
            for number in range(max(0, epoch - 2), epoch):
                assert {name: session.at(number)[name].to_set() for name in session} == past[number]


def same(text: str, facts: dict[str, list], *steps: tuple[str, str, list]) -> list[dict[str, list]]:
    """What each step, a transaction of its own, has changed. After each, all relations are what a run makes of the facts."""
    program, facts = Program(text), {name: set(rows) for name, rows in facts.items()}
    facts = {name: set() for name in program.inputs} | facts
    told = []
    with program.session(facts) as session:
        for operation, name, rows in steps:
            with session.transaction() as transaction:
                ask(transaction, operation, program.relations[name], rows)
            perform(facts, operation, program.relations[name], rows)
            told.append({name: sorted(changes) for name, changes in transaction.changes.items()})
            with program.run(facts) as result:
                assert {name: session[name].to_set() for name in session} == {name: result[name].to_set() for name in result}
    return told
