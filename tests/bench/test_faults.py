"""The campaign of faults: what it draws from a seed, how it judges, and a minute of it."""

import dataclasses

import pytest

pytest.importorskip("psutil")

from bench.faults import __main__ as campaign  # noqa: E402
from bench.faults import errors, served  # noqa: E402
from bench.faults.kinds import KINDS  # noqa: E402
from bench.faults.trial import FaultTrial  # noqa: E402


def drawn(seed: int, name: str) -> tuple:
    kind = KINDS[name]
    with FaultTrial(name, seed, kind.places, ("names", "components"), kind.plan) as trial:
        return trial.workload, trial.where, trial.options


def test_a_seed_says_everything():
    assert drawn(7, "interrupted") == drawn(7, "interrupted")
    assert len({repr(drawn(seed, "interrupted")) for seed in range(5)}) > 1


def test_an_error_has_its_message_its_status_and_nothing_besides():
    said = "semi-naive: interrupted"
    assert errors.INTERRUPTED.fits(130, said)
    assert not errors.INTERRUPTED.fits(1, said) and not errors.INTERRUPTED.fits(130, f"{said}\n{said}")
    for text in ("Traceback (most recent call last):", "\tat scala.Some.get(Option.scala:1)", "py4j.protocol.Py4JError"):
        assert errors.STACK.search(text)


def test_a_wrong_answer_and_files_that_are_left_are_findings():
    """Of a run without any fault, in the driver alone."""
    with FaultTrial("nothing", 3, ("driver",), ("same_generation",)) as trial:
        child = trial.start()
        trial.judge(child)
        assert trial.findings == [] and trial.outcomes == ["right answer"]
        trial.workload.answers["same.csv"] = (1, 2)
        (trial.spare / "semi-naive-left").touch()
        trial.judge(child)
        assert (
            "same.csv is wrong" in trial.findings[0] and "semi-naive-left" in trial.findings[1] and trial.result == "findings"
        )


@pytest.mark.parametrize(
    "name, place", {"interrupted": "driver", "driver killed": "driver", "memory limit": "driver", "worker killed": "local",
                    "jvm killed": "local", "store damaged": "local", "checkpoint damaged": "local", "limit exceeded": "driver",
                    "clients leave": "driver",
                    "line interrupted": "driver", "log cut": "driver", "files swapped": "driver"}.items()
)  # fmt: skip
def test_a_minute_of_the_campaign(name, place):
    """One trial of each of these kinds, where it takes the least."""
    kind = KINDS[name]
    with FaultTrial(name, 1, (place,), ("same_generation",), kind.plan) as trial:
        kind.scenario(trial)
    assert trial.findings == [], trial.about


@pytest.mark.parametrize("name", ["odd requests", "registered rules"])
def test_a_minute_of_the_campaign_against_a_server(name, monkeypatch):
    pytest.importorskip("uvicorn")
    monkeypatch.setattr(served, "REQUESTS", 25)
    monkeypatch.setattr(served, "RULES", 6)
    kind = KINDS[name]
    with FaultTrial(name, 1, kind.places, kind.workloads) as trial:
        kind.scenario(trial)
    assert trial.findings == [] and trial.outcomes == ["right answer"]


def test_an_answer_that_is_a_failure_of_the_server_is_a_finding():
    with FaultTrial("odd requests", 1, ("driver",), ("components",)) as trial:
        server = served.Server(trial)
        assert server._judged("GET /", 200, b"[]") == (200, []) and not trial.findings
        for status, text in ((500, b'{"error": "x"}'), (400, b"[]"), (404, b"Not Found")):
            server._judged("GET /", status, text)
        assert len(trial.findings) == 3


def test_the_command_says_what_it_found_and_how_to_find_it_again(capsys, monkeypatch):
    def wrong(trial):
        trial.find("a file is left")

    monkeypatch.setitem(KINDS, "nothing", dataclasses.replace(KINDS["nothing"], scenario=wrong))
    assert campaign.main(["--runs", "1", "--seed", "5", "--only", "nothing"]) == 1
    told = capsys.readouterr()
    assert "finding: a file is left" in told.err and "--runs 1 --seed 5 --only nothing" in told.err and "findings" in told.out
