"""Settings without an effect are said; every setting of `Config` is in the table or has an effect whatever the plan."""

import pytest

from semi_naive import Config, Program, transitive_closure
from semi_naive.unused_settings import OF_A_CLOSURE, RULES, unused_settings

CHAIN = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""
ALWAYS = {  # by every plan of a program
    "local_tuples", "multiway", "max_iterations", "query_seconds", "query_bytes", "checkpoint_dir", "local_dir",
}  # fmt: skip


def test_every_setting_is_accounted_for():
    known = {name for rule in (*RULES, *OF_A_CLOSURE) for name in rule.settings}
    assert known | ALWAYS == Config().to_json().keys()


@pytest.mark.parametrize(
    "options, plan, said",
    [
        ({"buckets": 8, "policy": "paper"}, "auto", "the settings buckets, policy have no effect: every stratum"),
        ({"buckets": 8, "local_tuples": 0}, "balanced", None),
        (
            {"tolerance": 2.0, "refine": False, "local_tuples": 0},
            "balanced",
            "the setting tolerance has no effect: refine is off",
        ),
        ({"memory": "2G", "local_tuples": 0}, "balanced", "the setting memory has no effect: local_tuples is 0"),
        ({"memory": "2G"}, "auto", None),
        ({"rule": "path-path"}, "auto", "the setting rule has no effect: a program has its own rules"),
    ],
)
def test_a_run_says_what_had_no_effect(here, caplog, options, plan, said):
    with Program(CHAIN).run({"edge": [(1, 2), (2, 3)]}, here, plan=plan, **options) as result:
        assert result["path"].count() == 3
    found = [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()]
    assert not found if said is None else len(found) == 1 and found[0].startswith(said)


def test_a_decomposed_closure_refuses_to_make_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="makes no checkpoints: leave out checkpoint_dir, or the plan"):
        transitive_closure([(1, 2)], plan="decomposed", checkpoint_dir=str(tmp_path))
    assert unused_settings(Config(local_tuples=5), {"balanced"}, OF_A_CLOSURE)


def test_cores_of_a_cluster_are_not_counted_here(run, tmp_path):
    (tmp_path / "p.dl").write_text(CHAIN)
    (tmp_path / "edge.facts").write_text("1\t2\n")
    status, _, said = run("run", "p.dl", "-j", "2", "--master", "spark://nowhere:7077")
    assert status == 2 and "give one" in said
