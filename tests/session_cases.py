"""What tests of sessions share: programs, and transactions of which a run tells the result."""

from hypothesis import HealthCheck, Phase
from paths import PATHS  # noqa: F401

from bench.fuzz.checks import ask, perform
from semi_naive import Program

# Not shrunk: a case that fails prints itself, and is small anyway.
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
REACH = """
.decl seed(x: number)
.input seed
.decl edge(x: number, y: number)
.input edge
.decl reach(x: number)
.output reach
reach(x) :- seed(x).
reach(y) :- reach(x), edge(x, y).
"""
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
