"""`semi-naive serve`: a session over HTTP, as a program and a browser call it."""

from serving import served, until_nobody_listens
from session_cases import PATHS

from semi_naive import Program


def test_a_relation_has_no_number_of_tuples_before_its_first_use():
    text = PATHS.replace(".output path", "")
    with Program(text).session({"edge": [(1, 2), (2, 3)]}) as session, served(session) as call:

        def tuples() -> dict:
            return {each["name"]: each["tuples"] for each in call("/relations")[1]["relations"]}

        assert tuples()["path"] is None
        assert call("/query?atom=path(1,y)")[1]["rows"] == [[2], [3]] and tuples()["path"] is None
        assert len(call("/relations/path")[1]["rows"]) == 3 and tuples()["path"] == 3


def test_transactions_and_queries(session):
    with served(session) as call:
        status, told = call(
            "/transactions", [{"insert": "edge", "rows": [[2, 3], [3, 4]]}, {"delete": "edge", "rows": [[9, 9]]}]
        )
        assert status == 200 and told["epoch"] == 1 and told["ignored"] == 1
        assert sorted(told["changes"]["path"]) == [[1, 3, 1], [1, 4, 1], [2, 3, 1], [2, 4, 1], [3, 4, 1]]
        assert call("/query?atom=path(1,y)") == (200, {"columns": ["y"], "rows": [[2], [3], [4]], "tuples": 3})
        assert call("/query?atom=path(1,4)") == (200, {"columns": [], "rows": [[]], "tuples": 1})
        assert call("/query?atom=path(x,y)&limit=1")[1]["tuples"] == 6
        assert len(call("/relations/path?limit=2")[1]["rows"]) == 2
        found = call("/relations")[1]
        assert found["epoch"] == 1 and [each["tuples"] for each in found["relations"]] == [3, 6]
        assert [each["changeable"] for each in found["relations"]] == [True, False]
        call("/transactions", {"operations": [{"upsert": "edge", "rows": [[2, 7]], "key": ["x"]}]})
        assert session["edge"].to_set() == {(1, 2), (2, 7), (3, 4)}
        session.clear("edge")  # who has the session commits, too
        assert session.epoch == 3 and not session["path"].count()
        assert [(each["epoch"], each["changes"]) for each in call("/epochs")[1]] == [
            (1, {"path": [5, 0]}), (2, {"path": [2, 4]}), (3, {"path": [0, 4]})
        ]  # fmt: skip
        status, page = call("/")
        assert status == 200 and "http" not in page.replace("http://www.w3.org", "")  # nothing from elsewhere
        assert "<main>" in page and "prefers-color-scheme: dark" in page and 'createElement("button")' in page


def test_rules_and_their_parameters(session):
    with served(session) as call:
        text = b".decl near(y: number)\nnear(y) :- path($src, y)."
        assert call("/rules/near", text, "PUT") == (200, {"name": "near"})
        assert call("/query?atom=near(y)&src=1")[1]["rows"] == [[2]]
        with call.events("/changes/near?src=1&snapshot=1") as told:
            assert told() == (0, [[2, 1]])
            call("/transactions", [{"insert": "edge", "rows": [[2, 3], [7, 8]]}])
            assert told() == (1, [[3, 1]])
            assert call("/rules")[1] == [{"name": "near", "parameters": ["src"], "subscriptions": 1}]
            assert "needed by 1 subscription:" in call("/rules/near", method="DELETE")[1]["error"]
        call(
            "/transactions", [{"insert": "edge", "rows": [[3, 5]]}]
        )  # a write after which the server knows that nobody listens
        until_nobody_listens(session)
        assert call("/rules/near", method="DELETE")[0] == 200
        assert call("/rules/near", method="DELETE")[0] == 404
        assert call("/rules/two?share=true", b".decl two(y: number)\ntwo(y) :- edge(1, y).", "PUT")[0] == 200
        assert call("/rules/two?add=true", b"two(99).", "PUT")[0] == 200
        assert [99] in call("/query?atom=two(y)")[1]["rows"] and call("/rules/two")[1]["text"].endswith("two(99).")
        told = call("/rules/near2?share=1", text, "PUT")
        assert (
            told[0] == 400
            and "share='1' of rules is unknown: there is share=true or share=false and add=true or add=false"
            in told[1]["error"]
        )
        status, told = call("/rules/bad", b".decl bad(x: number)\nbad(x) :- nothing(x), y > x.", "PUT")
        assert status == 400 and "Undefined relation nothing in file <bad> at line 2" in told["error"]
        waiting = {"name": "bad", "waits_for": ["nothing"]}
        assert call("/rules/bad", b".decl bad(x: number)\nbad(x) :- nothing(x).", "PUT") == (200, waiting)
        status, told = call("/query?atom=bad(x)")
        assert status == 400 and "the rules for bad wait for nothing" in told["error"]
        assert call("/rules/bad", method="DELETE")[0] == 200
        assert call("/query?atom=path(1,y),edge(x,y)")[1]["rows"] == call("/query?atom=path(1,y),edge(x,y).")[1]["rows"] != []
        assert (
            "src is 'a': expected a number"
            in (call("/rules/near", text, "PUT"), call("/query?atom=near(y)&src=a"))[1][1]["error"]
        )


def test_proofs_and_plans(session):
    with served(session) as client:
        client("/rules/near", b".decl near(y: number)\nnear(y) :- path($src, y).", "PUT")
        client("/transactions", [{"insert": "edge", "rows": [[1, 2], [2, 3]]}])
        assert client("/why/path?row=[1,3]")[1]["text"] == str(session.why("path", (1, 3)))
        assert client("/why_not/path?row=[3,1]")[1]["text"] == str(session.why_not("path", (3, 1)))
        assert client("/why/near?row=[3]&src=1")[1]["text"] == str(session.why("near", (3,), src=1))
        assert client("/explain")[1]["text"] == session.explain() and client("/explain/near")[1]["text"] == session.explain(
            "near"
        )
        assert client("/explain/path?changes=1")[1]["text"] == session.explain("path", changes=True)
        for path, status, told in [
            ("/why/path?row=[3,1]", 400, "is not there; why_not tells"),
            ("/why/path?row=3", 400, "the row is 3; expected ?row="),
            ("/why/path", 400, "the row is no JSON"),
            ("/why/path?row=[1]", 400, "path has 2 attributes"),
            ("/why/path?row=[NaN,1]", 400, "NaN is no JSON"),
            ("/why/no?row=[1]", 404, "'no'"),
            ("/explain/no", 404, "'no'"),
            ("/explain?src=1", 400, "src is no option"),
        ]:
            found, answer = client(path)
            assert found == status and told in answer["error"], answer


def test_a_stream_goes_on_after_an_epoch(session):
    with served(session) as call:
        call("/transactions", [{"insert": "edge", "rows": [[2, 3]]}])
        call("/transactions", [{"insert": "edge", "rows": [[3, 4]]}])
        with call.events("/changes/edge", **{"Last-Event-ID": "1"}) as told:
            assert told() == (2, [[3, 4, 1]])
        with call.events("/changes/edge?since=0") as told:
            assert told() == (2, [[2, 3, 1], [3, 4, 1]])
        assert call("/differences/edge?since=0&until=1") == (200, {"epoch": 1, "changes": [[2, 3, 1]]})
        assert call("/differences/edge")[1] == {"epoch": 2, "changes": [[1, 2, 1], [2, 3, 1], [3, 4, 1]]}
        for _ in range(4):
            call("/transactions", [])
        status, told = call("/changes/edge?since=0")
        assert status == 400 and "epoch 0 is gone: epochs 3 to 6 are kept" in told["error"]


def test_a_stream_without_changes_tells_its_progress(session, monkeypatch):
    monkeypatch.setattr("semi_naive.session.served.events.PROGRESS_SECONDS", 0.05)
    session.register("far", ".decl far(x: number)\nfar(x) :- edge(x, _), x > 100.")
    with served(session) as call:
        with call.events("/changes/far") as told, call.events("/changes/edge?epochs=3") as summed:
            for number in range(2):
                call("/transactions", [{"insert": "edge", "rows": [[number, 7]]}])
            while told() != (2, None):
                pass
            call("/transactions", [{"insert": "edge", "rows": [[200, 7]]}])
            while (said := told())[1] is None:
                assert said[0] == 2  # as long as changes wait, the progress is not beyond them
            assert said == (3, [[200, 1]]) and told() == (3, None)
            found = [summed()]
            while found[-1][1] is None:
                found.append(summed())
            assert found[-1] == (3, [[0, 7, 1], [1, 7, 1], [200, 7, 1]]) and {epoch for epoch, _ in found[:-1]} <= {0}
        for _ in range(9):
            call("/transactions", [])
        with call.events("/changes/edge", **{"Last-Event-ID": "9"}) as told:
            assert told() == (12, None)
