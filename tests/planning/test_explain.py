"""What `explain` says of programs, word for word; and that it is what a run does."""

import re

import paths
import pytest

from semi_naive import Program
from semi_naive.io.errors import BadInput
from semi_naive.planning.joins.fanout import uniform_fanout
from semi_naive.ra.by_variable.multiway import Multiway
from semi_naive.ra.rules.steps import Join
from semi_naive.session.maintenance.delete_rederive import in_driver

PATHS = (
    paths.PATHS.lstrip()
    + """.decl far(x: number)
.output far
far(x) :- path(x, _), !edge(x, _), x > 2.
"""
)
PATHS_WITHOUT_FACTS = """\
paths.dl: 3 relations, 3 rules besides facts

Facts
  not given: each relation that is read is supposed to have 1,000 tuples; plans and orders depend on that
  edge(x, y): supposed 1,000 tuples

Stratum 1 of 2: path, recursive
  plan local: it reads 1,000 tuples
    should it make more than 50,000 in an iteration: the decomposed plan of a closure

  path(x, y) :- edge(x, y).  [paths.dl:5]
    once
      1. edge(x, y)  all → 1,000 bindings; the only atom

  path(x, z) :- path(x, y), edge(y, z).  [paths.dl:6]
    from what is new in path(x, y)
      1. path(x, y)  the delta → 1,000 bindings; the delta comes first
      2. edge(y, z)  all, by x in index (x, y) → 31,623 bindings; the last atom
         fused: y is not needed any more, so x and z come out once each

  indexes
    edge(x, y): searched by x
    path(x, y): read from beginning to end

  expected: 1,000 tuples in path, before it recurs

Stratum 2 of 2: far
  plan local: it reads 2,000 tuples
    should it make more than 50,000 in an iteration: balanced

  far(x) :- path(x, _), !edge(x, _), x > 2.  [paths.dl:9]
    once
      1. path(x, _)  all → 1,000 bindings; the only atom
         if x > 2
         unless edge(x, _), by x in index (x, y)

  indexes
    edge(x, y): searched by x
    path(x, y): read from beginning to end

  expected: 1,000 tuples in far
"""

GENERATION = """.decl parent(child: symbol, parent: symbol)
.input parent
.decl same(x: symbol, y: symbol)
.output same
same(x, y) :- parent(x, p), parent(y, p), x != y.
same(x, y) :- parent(x, a), same(a, b), parent(y, b).
"""
FAMILY = [("ann", "old"), ("bob", "old"), ("cid", "ann"), ("dan", "bob")]
GENERATION_ON_THE_PARTITIONS = """\
same.dl: 2 relations, 2 rules besides facts

Facts
  parent(child, parent): 4 tuples

Stratum 1 of 1: same, recursive
  plan balanced: it reads 4 tuples

  same(x, y) :- parent(x, p), parent(y, p), x != y.  [same.dl:5]
    once
      1. parent(x, p)  all, a share on each partition → 4 bindings; the cheapest start
      2. parent(y, p)  all, by parent in index (parent, child) → 5 bindings; the last atom
         fused: p is not needed any more, so x and y come out once each
         if x != y

  same(x, y) :- parent(x, a), same(a, b), parent(y, b).  [same.dl:6]
    from what is new in same(a, b)
      1. same(a, b)    the delta → 5 bindings; the delta comes first
      2. parent(x, a)  all, by parent in index (parent, child) → 7 bindings; fewest tuples expected
         fused: a is not needed any more, so b and x come out once each
      3. parent(y, b)  all, by parent in index (parent, child) → 9 bindings; the last atom
         fused: b is not needed any more, so x and y come out once each

  indexes
    parent(child, parent): read from beginning to end
      replicated: 32 bytes of 1 GiB a host
    parent(parent, child): searched by parent
      replicated: 32 bytes of 1 GiB a host
    same(x, y): read from beginning to end
      partitioned: it grows

  expected: 5 tuples in same, before it recurs
"""

PASSES = """.type Pair = [a: number, b: number]
.decl edge(x: number, y: number)
.input edge
.decl near(x: number, y: number) inline
near(x, y) :- edge(x, y), x < y.
.decl path(x: number, y: number) magic
path(x, y) :- near(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl from1(y: number, r: Pair)
.output from1
from1(y, [n, y]) :- path(1, y), n = count : { edge(y, z), z > 1 }, edge(y, y).
.decl steps(x: number, d: number)
.output steps
steps(1, 0).
steps(y, min(d + 1)) :- steps(x, d), edge(x, y).
.decl gone(x: number)
gone(x) :- edge(x, x).
"""
PASSES_FOR_OUTPUTS = """\
passes.dl: 5 relations, 4 rules besides facts

What was done to the rules
  inlined: near
  on demand: path for those x that path@bf.demand holds, as path@bf
  left out: gone, on which nothing that is wanted depends

Facts
  edge(x, y): 3 tuples
  steps(x, d): 1 tuple
  path@bf.demand(x): 1 tuple

Stratum 1 of 3: path@bf, recursive
  plan local: it reads 4 tuples
    should it make more than 50,000 in an iteration: decomposed; \
all recursive rules carry path@bf(x) unchanged: its groups never meet, and what else is read fits every host

  path(x, y) :- near(x, y).  [passes.dl:7]
    as path@bf(x, y) :- path@bf.demand(x), edge(x, y), x < y.
    once
      1. path@bf.demand(x)  all → 1 binding; the cheapest start
      2. edge(x, y)         all, by x in index (x, y) → 2 bindings; the last atom
         if x < y

  path(x, z) :- path(x, y), edge(y, z).  [passes.dl:8]
    as path@bf(x, z) :- path@bf.demand(x), path@bf(x, y), edge(y, z).
    from what is new in path@bf(x, y)
      1. path@bf(x, y)      the delta → 2 bindings; the delta comes first
      2. path@bf.demand(x)  one is enough of all, by x in index (x) → less than 1 binding; fewest tuples expected
      3. edge(y, z)         all, by x in index (x, y) → 1 binding; the last atom
         fused: y is not needed any more, so x and z come out once each

  indexes
    edge(x, y): searched by x
    path@bf(x, y): read from beginning to end
    path@bf.demand(x): searched by x

  expected: 2 tuples in path@bf, before it recurs

Stratum 2 of 3: from1
"""


def explained(text: str, file: str, *facts, **options) -> str:
    return Program(text, file).explain(*facts, local_tuples=options.pop("local_tuples", 50_000), **options)


def test_without_facts():
    assert explained(PATHS, "paths.dl") == PATHS_WITHOUT_FACTS


def test_on_the_partitions():
    assert explained(GENERATION, "same.dl", {"parent": FAMILY}, local_tuples=0) == GENERATION_ON_THE_PARTITIONS


def test_passes():
    found = explained(PASSES, "passes.dl", {"edge": [(1, 2), (2, 3), (1, 4)]}, only_outputs=True)
    assert found.startswith(PASSES_FOR_OUTPUTS)
    aggregate = found[found.index("let ") :].splitlines()
    assert [line.strip() for line in aggregate[:3]] == [
        "let count = count of, for each y",
        "each edge(y, z), by x in index (x, y)",
        "if z > 1",
    ]
    assert "  steps: of each x the least d\n" in found


def test_what_was_done_to_rules():
    text = """.decl e(x: number, y: number)
.input e
.decl same(x: number, y: number) eqrel
.output same
same(x, y) :- e(x, y).
.decl to(x: number, y: number)
.output to
to(x, o) :- e(x, y), to(y, z), to(z, o).
to(x, y) :- e(x, y).
.decl a(x: number, y: number)
.output a
.decl b(x: number, y: number)
.output b
a(x, y) :- e(x, v), e(v, y), same(x, x).
b(y, u) :- e(y, w), e(w, u), !same(u, u).
b(x, y) :- to(y, x), none(x).
.decl none(x: number)
"""
    found = explained(text, "done.dl", only_outputs=True)
    done = found[found.index("What was done") : found.index("\n\nFacts")].splitlines()
    assert done[1:] == [
        "  shared: shared.1(x, y) :- e(x, v), e(v, y).",
        "  halved: half@1(x, z) :- e(x, y), to(y, z).",
        "  closed: same is an equivalence, kept as classes; its pairs are made at the end",
        "  left out: none, on which nothing that is wanted depends",
        "  left out: b(x, y) :- to(y, x), none(x).  [done.dl:16]: it can have no tuples, or says what another rule says",
    ]


def test_a_closure_is_told():
    text = PATHS[: PATHS.index(".decl far")]
    found = explained(text, "p.dl", {"edge": [(i, i + 1) for i in range(5000)]})
    assert "  plan decomposed: a transitive closure; path-edge carries x unchanged" in found
    small = explained(text, "p.dl", {"edge": [(1, 2)]})
    assert "    should it make more than 50,000 in an iteration: the decomposed plan of a closure\n" in small


@pytest.mark.parametrize("local_tuples", [0, 50_000])
def test_plans_are_those_of_a_run(local_tuples):
    """Word for word the reason that the record of a run has, where sizes are known to both."""
    program, facts = Program(GENERATION, "same.dl"), {"parent": FAMILY}
    stratum = program.run(facts, local_tuples=local_tuples).trace["strata"][-1]
    found = explained(GENERATION, "same.dl", facts, local_tuples=local_tuples)
    assert f"plan {stratum['plan']}: {stratum['reason'].split(' and makes')[0]}\n" in found


def test_indexes_are_shared():
    """by y and by y with z need one index."""
    text = """.decl e(x: number, y: number, z: number)
.input e
.decl a(x: number)
.output a
.decl b(y: number, z: number)
.input b
a(x) :- b(y, z), e(x, y, z).
a(z) :- b(y, _), e(_, y, z).
"""
    program = Program(text)
    facts = {"e": [(i, i % 7, i % 11) for i in range(200)], "b": [(i % 7, i % 11) for i in range(6)]}
    assert "e(y, z, x): searched by y; by y and z" in program.explain(facts)
    with program.run(facts) as result:
        assert set(result.database.tables["e"].full) == {(0, 1, 2), (1, 2, 0)}


def test_a_large_relation_is_scanned_if_only_one_rule_would_search_it():
    """Making an index takes longer than a join with each tuple by the keys of small relations; a recursive rule needs it."""
    text = """.decl sale(id: number, product: number, price: number)
.decl product(product: number, kind: symbol)
.input sale, product
.decl total(kind: symbol, price: number)
.output total
.decl sold(id: number, kind: symbol)
.output sold
"""
    total, sold = "total(k, sum(a)) :- sale(_, p, a), product(p, k).\n", "sold(i, k) :- product(p, k), sale(i, p, _).\n"
    searching = ".decl r(x: number)\n.output r\nr(1).\nr(y) :- r(x), sale(y, x, _).\n"
    sales, products = [(i, i % 50, i % 7) for i in range(6000)], [(p, f"kind {p % 3}") for p in range(50)]
    for rules, orders in (total, {(0, 1, 2)}), (sold, {(0, 1, 2)}), (searching, {(0, 1, 2), (1, 0, 2)}):
        with Program(text + rules).run({"sale": sales, "product": products}) as result:
            assert set(result.database.tables["sale"].full) == orders
            assert rules != sold or result["sold"].to_set() == {(i, f"kind {p % 3}") for i, p, _ in sales}


def test_facts_are_read_as_for_a_run(tmp_path, capsys):
    with pytest.raises(BadInput, match=r"edge\[0\]"):
        explained(PATHS, "paths.dl", {"edge": [(1,)]})
    (tmp_path / "edge.facts").write_text("1\t2\n")
    assert "edge(x, y): 1 tuple\n" in explained(PATHS, "paths.dl", tmp_path)
    (tmp_path / "edge.facts").unlink()
    assert "edge(x, y): 0 tuples\n" in explained(PATHS, "paths.dl", tmp_path)
    assert "Cannot open fact file edge.facts" in capsys.readouterr().err


RAN = """\
same.dl: 2 relations, 2 rules besides facts, T s

Facts
  parent(child, parent): 4 tuples

Stratum 1 of 1: same, recursive
  plan local: it reads 4 tuples and makes fewer than 50,000: no job is worth it

  same(x, y) :- parent(x, p), parent(y, p), x != y.  [same.dl:5]
    ran once, T s, made 2 tuples
    once
      1. parent(x, p)  all → 4 bindings; the cheapest start
      2. parent(y, p)  all, by parent in index (parent, child) → 5 bindings; the last atom
         fused: p is not needed any more, so x and y come out once each
         if x != y

  same(x, y) :- parent(x, a), same(a, b), parent(y, b).  [same.dl:6]
    ran 2 times, T s, made 2 tuples
    from what is new in same(a, b)
      1. same(a, b)    the delta → 2 bindings; the delta comes first
      2. parent(x, a)  all, by parent in index (parent, child) → 3 bindings; fewest tuples expected
         fused: a is not needed any more, so b and x come out once each
      3. parent(y, b)  all, by parent in index (parent, child) → 4 bindings; the last atom
         fused: b is not needed any more, so x and y come out once each

  indexes
    parent(child, parent): read from beginning to end
    parent(parent, child): searched by parent
    same(x, y): read from beginning to end

  made: 4 tuples in same, T s
"""


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d{3} s( = .*)?", "T s", text)


def test_after_a_run():
    result = Program(GENERATION, "same.dl").run({"parent": FAMILY}, local_tuples=50_000)
    assert timeless(result.explain()) == RAN


def test_after_a_run_on_the_partitions(here):
    text = (
        GENERATION + ".decl path(x: symbol, y: symbol)\npath(x, y) :- parent(x, y).\npath(x, z) :- path(x, y), parent(y, z).\n"
    )
    with Program(text, "same.dl").run({"parent": FAMILY}, here, local_tuples=0) as result:
        found = timeless(result.explain())
    assert "plan balanced: it reads 4 tuples\n" in found and "all, a share on each partition → 4 bindings" in found
    assert "plan decomposed: a transitive closure" in found and "made: 6 tuples in path, T s" in found


def test_a_rule_for_which_nothing_was_new():
    result = Program(GENERATION, "same.dl").run({"parent": []})
    assert "    from what is new in same(a, b)\n      nothing was new\n" in result.explain()


def test_a_key_of_two_columns_counts_as_one():
    """Each (a, b) of wide has 100 tuples, though there are as many values of a times values of b as tuples: so few, which has
    two of each, comes first."""
    program = Program(
        """
        .decl start(a: number, b: number)
        .input start
        .decl wide(a: number, b: number, c: number)
        .input wide
        .decl few(a: number, b: number, c: number)
        .input few
        .decl both(c: number)
        .output both
        both(c) :- start(a, b), wide(a, b, c), few(a, b, c).
        """
    )
    keys = [(i, i) for i in range(300)]
    wide = [(*key, 1000 * key[0] + c) for key in keys for c in range(100)]
    few = [(*key, 1000 * key[0] + c) for key in keys for c in (0, 100)]
    text = str(program.explain({"start": keys, "wide": wide, "few": few}))
    assert re.findall(r"\d\. (\w+)\(", text) == ["start", "few", "wide"]


def test_suspects_are_distributed_as_the_tuples_of_their_relation():
    """A sixth of path leads from one node, so a suspect of path begins with the edge that ends where it does."""
    program = Program(paths.PATHS.replace("edge(y, z).", "edge(y, z), x != z."))
    edges = [(0, i) for i in range(1, 400)] + [(1000 + i, 5000 + i) for i in range(2000)]
    with program.session({"edge": edges}) as session:
        [number] = [number for number, each in enumerate(session.upkeep.run.strata) if each.recursive]
        local, path = in_driver(session.upkeep.relations, number), session.upkeep.relations.tables["path"]
        assert uniform_fanout(local.database, "path", (0,)) < 2 and local.database.join_fanout("path", (0,), "path", (0,)) > 50
        with local._rederivable({"path": path.blocks("all", path.home)[0]}, ()):
            [*_, one] = [one for one in local.insertions if one[0].body[0].relation == "path:"]
            again = local.inserting._body(*one)
        core = next(step for step in again.derivation.steps if isinstance(step, Multiway))
        assert [step.relation for step in core.steps if isinstance(step, Join)] == ["edge", "path"]
