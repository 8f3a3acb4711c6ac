"""The ontologies at toy size: the facts are the same for the same seed, and the rows run."""

import json

from bench import ontologies


def test_every_row_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ontologies, "compilers", lambda folder: [])
    out = tmp_path / "results.json"
    assert ontologies.main(["--toy", "--repeat", "1", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert rows.keys() == ontologies.MAKERS.keys()
    assert all(row["samples"]["ours"][0]["tuples"] > 10 for row in rows.values())
    assert "universities" in capsys.readouterr().out


def test_facts_are_seeded(tmp_path):
    one, other = (ontologies.write_facts("el", 0.01, tmp_path / name) for name in ("one", "other"))
    names = sorted(path.name for path in one.iterdir())
    assert len(names) == 7 and all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_a_row_that_is_not_there_is_refused(capsys):
    assert ontologies.main(["--toy", "--rows", "moon"]) == 1
    assert "expected some of el, universities, doctors" in capsys.readouterr().err
