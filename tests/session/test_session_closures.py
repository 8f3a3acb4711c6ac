"""Sessions that maintain transitive closures, by rules, by components or by their edges."""

import pytest
from session_cases import PATHS, same

from semi_naive import Program
from semi_naive.session.maintenance import closures
from semi_naive.session.maintenance.delete_rederive import DeleteRederive

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def by_rules(monkeypatch):
    """How often a stratum has followed by its rules."""
    times, follow = [], DeleteRederive.maintain
    monkeypatch.setattr(DeleteRederive, "maintain", lambda self, *given: times.append(1) or follow(self, *given))
    return times


@pytest.fixture
def by_components(monkeypatch):
    """Where pairs may have come and gone of closures that have followed by components."""
    found, differing = [], closures.differing
    told = lambda *given: found.append(differing(*given)) or found[-1]  # noqa: E731
    monkeypatch.setattr("semi_naive.session.maintenance.propagation.differing", told)
    return found


def test_an_edge_of_a_closure_that_is_not_missed_goes_without_a_search_of_pairs(by_rules, by_components):
    edges = [(1, 2), (2, 3), (1, 3), (3, 4), (4, 3)]
    steps = [("delete", "edge", [(1, 3)]), ("insert", "edge", [(1, 4)]), ("delete", "edge", [(4, 3)])]
    told = same(PATHS, {"edge": edges}, *steps)
    assert told[:2] == [{}, {}] and len(by_components) == 1 and by_rules == []
    assert told[2]["path"] == [(3, 3, -1), (4, 3, -1), (4, 4, -1)]


def test_the_same_of_a_closure_of_many_edges_whose_rules_are_quick(many_edges, by_rules, by_components):
    steps = [("delete", "edge", [(1, 3)]), ("insert", "edge", [(1, 4)]), ("delete", "edge", [(3, 4)])]
    told = same(PATHS, {"edge": [(1, 2), (2, 3), (1, 3), (3, 4)]}, *steps)
    assert told[:2] == [{}, {}] and by_components == [] and len(by_rules) == 1
    assert told[2]["path"] == [(2, 4, -1), (3, 4, -1)]


def test_rules_of_a_closure_that_take_too_long_give_way_to_components(monkeypatch, many_edges, by_rules, by_components, anew):
    monkeypatch.setattr("semi_naive.session.maintenance.recomputation.Budget.bindings", lambda *given, **how: 0)
    told = same(PATHS, {"edge": [(1, 2)]}, ("insert", "edge", [(2, 3), (3, 4)]), ("delete", "edge", [(2, 3)]))
    assert len(told[0]["path"]) == 5 and len(told[1]["path"]) == 4
    assert by_rules and len(by_components) == 2 and anew == []


def test_edges_of_a_closure_from_a_node_to_itself(by_components):
    told = same(
        PATHS, {"edge": [(1, 1), (1, 2)]}, ("delete", "edge", [(1, 1)]), ("insert", "edge", [(2, 2), (1, 1)]),
        ("insert", "edge", [(2, 1)]), ("delete", "edge", [(1, 1), (2, 2)]), ("delete", "edge", [(2, 1)]),
    )  # fmt: skip
    assert [each.get("path") for each in told] == [
        [(1, 1, -1)], [(1, 1, 1), (2, 2, 1)], [(2, 1, 1)], None, [(1, 1, -1), (2, 1, -1), (2, 2, -1)],
    ]  # fmt: skip


def test_edges_of_a_closure_that_take_each_others_place(by_components):
    with Program(PATHS).session({"edge": [(1, 2), (2, 3), (3, 4)]}) as session:
        with session.transaction() as transaction:
            transaction.delete("edge", [(2, 3)])
            transaction.insert("edge", [(2, 5), (5, 3)])
        assert sorted(transaction.changes["path"]) == [(1, 5, 1), (2, 5, 1), (5, 3, 1), (5, 4, 1)]
        with session.transaction() as transaction:
            transaction.delete("edge", [(2, 5), (5, 3)])
            transaction.insert("edge", [(2, 3)])
        assert sorted(transaction.changes["path"]) == [(1, 5, -1), (2, 5, -1), (5, 3, -1), (5, 4, -1)]


def test_components_of_a_closure_that_fall_apart_and_join(by_components):
    ring = [(i, (i + 1) % 100) for i in range(100)]
    steps = [("delete", "edge", [ring[99]]), ("insert", "edge", [ring[99], (99, 100)]), ("delete", "edge", [ring[9], ring[59]])]
    told = same(PATHS, {"edge": ring}, *steps)
    assert [len(each["path"]) for each in told] == [5050, 5150, 10_100 - 2 * 50 * 49 // 2 - 40]
    assert len(by_components) == 3


def test_facts_of_a_closure_end_that_it_is_one(by_components):
    steps = [("insert", "path", [(7, 1)]), ("insert", "edge", [(2, 3)]), ("delete", "edge", [(1, 2)]), ("clear", "path", [])]
    told = same(PATHS.replace(".output path", ".input path\n.output path"), {"edge": [(1, 2)], "path": []}, *steps)
    assert [each["path"] for each in told] == [
        [(7, 1, 1), (7, 2, 1)], [(1, 3, 1), (2, 3, 1), (7, 3, 1)],
        [(1, 2, -1), (1, 3, -1), (7, 2, -1), (7, 3, -1)], [(7, 1, -1)],
    ]  # fmt: skip
    assert by_components == []


def test_a_closure_whose_rows_of_bits_would_be_long_is_computed_anew(monkeypatch, by_rules, anew):
    monkeypatch.setattr("semi_naive.session.maintenance.closures.MAX_WORK_WORDS", 0)
    told = same(PATHS, {"edge": [(0, 1)]}, ("insert", "edge", [(2 * i, 2 * i + 1) for i in range(200)]))
    assert len(told[0]["path"]) == 199 and (by_rules or anew)


RING = {(i, (i + 1) % 9) for i in range(9)}


def test_a_closure_that_is_known_by_its_edges_has_no_pairs_until_somebody_asks(implied, tmp_path, anew):
    everything = {(x, y) for x in range(9) for y in range(9)}
    with Program(PATHS).session({"edge": RING}, path=tmp_path / "s") as session:
        pairs = lambda: session.upkeep.relations.tables["path"]  # noqa: E731
        halves = session.delete("edge", [(8, 0), (4, 5)]).changes["path"]
        assert (halves.inserted, halves.deleted, session["path"].count()) == (0, 81 - 10 - 6, 16)
        with pytest.raises(ZeroDivisionError), session.transaction() as transaction:
            transaction.clear("edge")
            raise ZeroDivisionError
        session.insert("edge", [(0, 2)])  # which are connected
        assert session.query("path(1, y)").to_set() == {(2,), (3,), (4,)} and session.query("path(x, 77)").count() == 0
        assert str(session.why("path", (0, 2))).startswith("path(0, 2)")
        assert session.query('sys.memory("path", tuples, _)').to_list() == [(16,)]
        assert session.query('sys.index("path", _, _, _)').count() == 0 and not pairs().is_spelt
        session.insert("edge", [(8, 0), (4, 5)])
        assert anew == [] and not pairs().is_spelt
    with Program(PATHS).session(path=tmp_path / "s") as session:
        assert session["path"].count() == 81 and session.derived_anew == []
        assert not session.upkeep.relations.tables["path"].is_spelt
        assert session.why_not("path", (7, 77)) and session["path"].to_set() == everything
        assert session.upkeep.relations.tables["path"].is_spelt
    assert halves.to_set() == {
        (x, y, -1) for x, y in everything - {(x, y) for x, y in everything if x < y and (x < 5) == (y < 5)}
    }


def test_who_is_told_and_rules_that_read_a_closure_have_its_pairs(implied):
    told, far = [], []
    with Program(PATHS).session({"edge": RING}) as session:
        session.subscribe("path", lambda changes, epoch: told.append(changes.to_set()))
        assert len(session.delete("edge", [(8, 0)]).changes["path"]) == 81 - 36
        assert told == [{(x, y, -1) for x in range(9) for y in range(x + 1)}]
        assert not session.upkeep.relations.tables["path"].is_spelt
        session.register("far", ".decl far(y: number)\nfar(y) :- path($x, y), !edge(y, _).")
        session.subscribe("far", lambda changes, epoch: far.append(changes.to_set()), x=6)
        session.delete("edge", [(7, 8)])
        assert far == [{(8, -1), (7, 1)}] and session.upkeep.relations.tables["path"].is_spelt
        session.delete("edge", [(2, 3)])
        session.insert("edge", [(7, 0)])
        assert session["path"].to_set() == {
            (x, y) for x in range(8) for y in range(8) if x < y and (x < 3) == (y < 3) or y < 3 <= x
        }
