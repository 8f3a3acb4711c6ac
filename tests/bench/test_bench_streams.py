"""The benchmark against Pathway at toy size, with a stand-in for it that counts what is reached at the end."""

import json
import sys

import pytest

from bench import streams

STAND_IN = """#!{python}
import json, sys
import numpy as np
facts = np.load(sys.argv[3])
edges, count = np.concatenate([facts["edges"], facts["marks"]]).tolist(), int(facts["transactions"])
reached = set(range(10))
while more := {{v for u, v in edges if u in reached}} - reached:
    reached |= more
print("a line of its own")
print(json.dumps({{"first": 1.0, "seconds": [0.5] * count, "count": len(reached) + {off}}}))
"""


@pytest.fixture
def pathway(tmp_path):
    def made(off: int = 0) -> str:
        path = tmp_path / "pathway"
        path.write_text(STAND_IN.format(python=sys.executable, off=off))
        path.chmod(0o755)
        return str(path)

    return made


def test_rows_are_measured_beside_pathway(pathway, tmp_path, capsys):
    out = tmp_path / "results.json"
    assert streams.main(["--quick", "--rows", "reachability", "--pathway", pathway(), "--out", str(out)]) == 0
    results = json.loads(out.read_text())["rows"]
    assert list(results) == ["reachability, 1", "reachability, 100"]
    row = results["reachability, 100"]
    assert len(row["session"]["seconds"]) == 4 and row["pathway"]["seconds"] == [0.5] * 4
    assert row["session"]["count"] == row["pathway"]["count"] and "500.0 (" in capsys.readouterr().out


def test_without_pathway_a_session_is_measured_alone(monkeypatch, capsys):
    monkeypatch.setattr(streams, "find_spec", lambda name: None)
    assert streams.main(["--quick", "--rows", "components", "--sizes", "1"]) == 0
    assert "components, 1" in capsys.readouterr().out


def test_counts_that_differ_stop_it(pathway, capsys):
    assert streams.main(["--quick", "--rows", "reachability", "--pathway", pathway(off=1)]) == 1
    assert "Pathway" in capsys.readouterr().err


def test_what_pathway_says_when_it_fails_is_shown(tmp_path, capsys):
    failing = tmp_path / "pathway"
    failing.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    failing.chmod(0o755)
    assert streams.main(["--quick", "--rows", "reachability", "--pathway", str(failing)]) == 1
    assert "status 3: no such module" in capsys.readouterr().err
