"""Patterns in files at toy size: all runs count the same."""

import json

from bench import out_of_core


def test_the_runs_agree(tmp_path):
    out = tmp_path / "out.json"
    arguments = ["--toy", "--repeat", "1", "--patterns", "triangle", "--memory", "16M", "--limit", "1G", "--out", str(out)]
    assert out_of_core.main(arguments) == 0
    row = json.loads(out.read_text())["rows"]["triangle"]
    assert row["count"] > 0 and [*row["samples"]] == ["in memory", "16M"]
