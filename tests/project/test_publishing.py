"""What is published beside the code: the citation, the metadata of the package, its terms, the hooks before a commit."""

import configparser
import gzip
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import semi_naive

ROOT = Path(__file__).parents[2]
TYPES = {"software", "conference-paper", "article", "thesis"}  # of references that the citation has


@pytest.fixture(scope="module")
def setup():
    found = configparser.ConfigParser()
    found.read(ROOT / "setup.cfg")
    return found


def tracked(*patterns) -> list[Path]:
    """The files of the checkout; where it is no repository, as in a source distribution, those that are there."""
    done = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return [path for pattern in patterns for path in ROOT.rglob(pattern)]
    return [ROOT / name for name in done.stdout.splitlines()]


def test_the_citation():
    """The fields that version 1.2.0 of the format wants, and the package's own version and licence."""
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["cff-version"] == "1.2.0" and found["message"] and found["title"] == "semi-naive"
    assert found["version"] == semi_naive.__version__ and found["license"] == "Apache-2.0" and found["type"] == "software"
    for each in (found, *found["references"]):
        assert each["type"] in TYPES and each["title"]
        assert each["authors"] and all({"name"} <= one.keys() or {"family-names"} <= one.keys() for one in each["authors"])
    assert all(1980 < each["year"] < 2100 for each in found["references"])


def test_the_version_has_one_place(setup):
    assert setup["metadata"]["version"] == "attr: semi_naive.__version__"
    assert re.fullmatch(r"\d+\.\d+\.\d+", semi_naive.__version__)
    assert f"## {semi_naive.__version__} " in (ROOT / "CHANGELOG.md").read_text()
    code = [path for path in tracked("*.py", "*.cfg", "*.toml") if path.name != "__init__.py" and "tests" not in path.parts]
    assert not [path for path in code if f'"{semi_naive.__version__}"' in path.read_text()]


def test_the_pythons_that_are_told_are_those_that_are_checked(setup):
    """In the metadata, to ruff and mypy, which find what the oldest does not have, and in CI."""
    told = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert setup["options"]["python_requires"] == f">={told[0]}" and tools["mypy"]["python_version"] == told[0]
    assert tools["ruff"]["target-version"] == f"py{told[0].replace('.', '')}"
    assert f" set -- {' '.join(told)}\n" in (ROOT / ".ci" / "pythons").read_text()
    assert f",{' '.join(told)})\n" in (ROOT / "Makefile").read_text()


def test_an_install_without_spark_names_all_other_packages(setup):
    needed = {re.match(r"[\w-]+", line)[0] for line in setup["options"]["install_requires"].split("\n") if line}
    told = re.search(r"^pip install --no-compile (numpy .*)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert set(told[1].split()) == needed - {"pyspark"}


def test_only_the_graph_is_of_others():
    """NOTICE tells its source and size; no other file has a foreign header."""
    notice = (ROOT / "NOTICE").read_text()
    graphs = tracked("graphs/*.gz")
    assert [f"graphs/{path.name}" in notice for path in graphs] == [True] * len(graphs) == [True]
    pairs = [line.split() for line in gzip.open(graphs[0], "rt")]
    assert f"{len(pairs):,} directed" in notice and f"{len({each for pair in pairs for each in pair}):,} hosts" in notice
    foreign = re.compile(rb"copyright|spdx-|all rights reserved|licensed under", re.IGNORECASE)
    files = [path for path in tracked() if path.name not in ("LICENSE", Path(__file__).name) and path.is_file()]
    assert not [path.name for path in files if foreign.search(path.read_bytes())]


def test_the_hooks_call_what_there_is():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    entries = {hook["id"]: hook["entry"] for hook in hooks[0]["hooks"]}
    assert entries.keys() == {"ruff", "ruff-format", "types", "datalog-format"}
    installed = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # as in an environment that is active
    for entry in entries.values():
        program, *others = entry.split()
        assert shutil.which(program, path=installed) and all((ROOT / word).exists() for word in others if "/" in word), entry


def test_the_examples_are_formatted(run):
    """As the hook asks for."""
    programs = tracked("examples/*.dl")
    assert len(programs) > 5 and run("format", "--check", *programs) == (0, "", "")


def test_the_wheel_has_its_terms_and_its_data(setup):
    """What is no code is named in setup.cfg: every such file of a folder that is installed."""
    assert set(setup["metadata"]["license_files"].split()) == {"LICENSE", "NOTICE"}
    named = {name: value.split(", ") for name, value in setup["options.package_data"].items()}
    folders = {"semi_naive": "semi_naive"} | {top: f"semi_naive.{top}" for top in ("balance", "graphs", "plots", "ra")}
    for path in tracked(*(f"{top}/*" for top in folders)):
        if path.suffix != ".py" and not path.is_symlink():
            first, *inner = path.relative_to(ROOT).parent.parts
            package = ".".join([folders[first], *inner])
            assert any(path.match(pattern) for pattern in named[package]), path
