"""The pages of docs/ and the README: the site is built strictly, what they quote is so, and their commands do what they show.

Their `>>>` examples are doctests, which pytest collects from the pages themselves (setup.cfg).
"""

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import page_commands
import pytest

import semi_naive
from bench import tuning
from semi_naive import Config, graphs, simulate, transitive_closure
from semi_naive.__main__ import cli
from semi_naive.host.account import PARTS
from semi_naive.simulated_ranks import SimulatedRanks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [ROOT / "README.md", *PAGES]
OWN = ("shell", "souffle")  # whose commands have tests of their own
SHOWING = [page for page in PAGES if page_commands.commands(page.read_text()) and page.stem not in OWN]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)


def test_the_site_builds_without_a_warning(tmp_path):
    """Links, anchors, the nav, and every name of the Python reference."""
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    built = (tmp_path / "site" / "python.html").read_text()
    told = [name for name in semi_naive.__all__ if f">{name}<" in built or f'title="{name}' in built]
    assert not set(semi_naive.__all__) - set(told) - {"Closure"}, "docs/python.md lacks a public name"
    assert "--fact-dir" in (tmp_path / "site" / "commands.html").read_text(), "the options of the commands"


def test_docstrings_become_markdown():
    pytest.importorskip("mkdocstrings")
    specification = importlib.util.spec_from_file_location("building", DOCS / "building.py")
    building = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(building)
    assert doctest.testmod(building, optionflags=OPTIONS) == (0, 1)


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    """As they are read on the disk, without the site: files, and headings in them."""
    for target in LINK.findall(FENCED.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}: there is {', '.join(anchors(file))}"


def anchors(page: Path) -> list[str]:
    """What the headings of a page are called in links."""
    texts = HEADING.findall(FENCED.sub("", page.read_text()))
    return [re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip()) for text in texts]


def test_the_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80


def test_times_of_the_readme_are_those_of_the_benchmarks():
    rows = re.findall(r"^\| (.*\d s.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    told = [line for line in (DOCS / "benchmarks.md").read_text().splitlines() if line.startswith("|")]
    assert len(rows) == 3
    for row in rows:
        name, tuples, *times = [cell.strip() for cell in row.split("|")]
        assert any(all(f"| {cell} |" in line for cell in (tuples, *filter(None, times))) for line in told), name


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.stem)
def test_commands_do_what_the_page_says(page, run, tmp_path):
    """In the order of the page, in a folder that has its files; `...` stands for anything, as in a doctest."""
    text = page.read_text()
    page_commands.write_files(text, tmp_path)
    for command, said in page_commands.commands(text):
        found = page_commands.printed(command, run)
        assert doctest.OutputChecker().check_output(said, found, OPTIONS), f"$ {command}\n{found}\nexpected:\n{said}"


def called(page: Path) -> list[str]:
    """The lines of blocks, and the code within sentences, that call the command, as far as it goes."""
    text = page.read_text()
    lines = [line.strip() for *_, block in page_commands.BLOCK.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`(semi-naive [^`]+)`", FENCED.sub("", text))
    return [line.removeprefix("$ ").partition(" | ")[0] for line in lines if re.match(r"(\$ )?semi-naive ", line)]


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.stem)
def test_every_command_has_the_options_that_a_page_gives_it(page):
    for line in called(page):
        name, *words = line.partition("  ")[0].split()[1:]
        if name not in ("COMMAND", "--version"):
            assert name in cli.commands, line
            known = {option for param in cli.commands[name].params for option in (*param.opts, *param.secondary_opts)}
            named = {word.partition("=")[0].strip("[],.") for word in words if re.match(r"\[?--?[a-zA-Z]", word)}
            assert named <= known | {"--help"}, f"{page.name}: {line}: {named - known}"


def test_no_command_is_missing():
    told = (DOCS / "commands.md").read_text()
    assert not [name for name in cli.commands if f"`semi-naive {name}" not in told]


def test_tuning_has_every_field_with_its_default():
    """And no other; each has a unit or says by its values that it has none, and what it changes."""
    row = re.compile(r"^\| `(\w+)` \| `([^`]+)` \|([^|]*)\|([^|]+)\|([^|]+)\|$", re.MULTILINE)
    rows = row.findall((DOCS / "tuning.md").read_text())
    told = {name: default for name, default, *_ in rows}
    wanted = {field.name: told_default(field.default) for field in fields(Config)}
    assert told == wanted
    assert len(rows) == len(wanted), "a field is there twice"
    assert all(any(character.isdigit() for character in changes) for *_, changes in rows), "a figure shows the effect"
    for field, _, unit, *_ in rows:
        assert unit.strip() or isinstance(getattr(Config(), field), bool | str), field


def told_default(value) -> str:
    return f'"{value}"' if isinstance(value, str) else tuning.told(value)


def test_what_a_setting_changes_is_counted(capsys):
    """The benchmark that the figures of tuning.md come from, at toy size, for some fields; it knows all of them."""
    assert set(tuning.NAMES) == {field.name for field in fields(Config)}
    assert tuning.main(["--toy", "--rows", "refine,rollover_threshold,memory,run_ahead"]) == 0
    assert "plan local" in capsys.readouterr().out
    assert tuning.main(["--toy", "--rows", "nothing"]) == 1 and "expected some of" in capsys.readouterr().err


def test_what_refinement_does_is_drawn(tmp_path):
    tuning.main(["--toy", "--draw", str(tmp_path / "figure.png")])
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Records of all kinds: of a program in the driver and on the partitions, with every event that a run has by itself."""
    folder = tmp_path_factory.mktemp("checkpoints")
    folder.chmod(0o700)
    tree, program = graphs.tree(7), tuning.CLOSURE
    spread = {"local_tuples": 0, "run_ahead": 0, "refinement_minimum": 16, "replicate_bytes": 0}
    kept = {"checkpoint_dir": str(folder), "checkpoint_interval": 2}
    found = [
        simulate(tree, 8, refinement_minimum=16),
        simulate(tree, 8, policy="paper", refinement_minimum=16, copy_inner=False),
    ]
    with (
        program.run({"edge": tree}) as here,
        program.run({"edge": tree}, SimulatedRanks(4), plan="balanced", **spread, **kept) as result,
    ):
        found += [here.trace, result.trace]
    with program.run({"edge": tree}, SimulatedRanks(2), plan="balanced", **spread | {"rollover_threshold": 20}) as result:
        found.append(result.trace)
    with transitive_closure([(1, 2), (2, 3)]) as closure:
        found.append(closure.trace)
    return found


def test_the_schema_of_the_trace_is_that_of_traces(traces):
    """No key that a record has is missing on the page, and none there is of nothing."""
    text = (DOCS / "reading.md").read_text()
    sections = re.findall(r"<!-- trace: ([\w.]+) -->\n\n((?:\|.*\n)+)", text)
    page = {name: keys_of(table) for name, table in sections}
    found: dict[str, set[str]] = {name: set() for name in page}
    for record in traces:
        gather(record, "record", found)
        for stratum in record.get("strata", []):
            gather(stratum.get("trace", {}), "record", found)
    for name, keys in found.items():
        assert keys <= page[name], f"docs/reading.md lacks {keys - page[name]} of {name}"
    seldom = {"record.events": {"path", "cursors", "inner"}}  # which only lost runs, and other roll-overs, have
    for name, keys in page.items():
        assert keys - found[name] <= seldom.get(name, set()), f"{name}: no trace has {keys - found[name]}"


def test_the_parts_of_the_account_are_those_of_the_page():
    table = (DOCS / "reading.md").read_text().partition("<!-- the account -->\n\n")[2].partition("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)) == PARTS


def keys_of(table: str) -> set[str]:
    return {key for row in table.splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])}


def gather(holder: dict, name: str, found: dict) -> None:
    """The keys of a dictionary, and of those in it, by the names of the page's tables."""
    found[name] |= holder.keys()
    for key, value in holder.items():
        inner = f"{name}.{key}"
        if inner in found:
            for each in value if isinstance(value, list) else [value]:
                gather(each, inner, found)
