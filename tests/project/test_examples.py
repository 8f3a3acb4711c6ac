"""The programs of examples/: their answers, byte for byte, however they are evaluated, and the same answers by other means."""

import shlex
from pathlib import Path

import examples_oracle
import pytest

from semi_naive import Config, Libraries, Program
from semi_naive.language.parsing.layout import formatted

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/program.dl"))
ON_SPARK = ("organisation",)  # 51 jobs; all of them run on partitions, and what differs on Spark is how tasks travel


def written(name: str, folder: Path, **running) -> dict[str, bytes]:
    source = EXAMPLES / name
    functors = Libraries([path for path in [source / "functors.py"] if path.exists()])
    program = Program.from_file(source / "program.dl", functors=functors)
    with program.run(source / "facts", only_outputs=True, **running) as result:
        result.write(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def expected(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (EXAMPLES / name / "expected").iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_example(name, tmp_path):
    assert written(name, tmp_path) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_example_on_partitions(name, tmp_path, here):
    config = Config(local_tuples=0, buckets=4, partitions=2, replicate_bytes=0)
    assert written(name, tmp_path, spark=here, config=config) == expected(name)


@pytest.mark.parametrize("name", ON_SPARK)
def test_example_on_spark(name, tmp_path, spark):
    assert written(name, tmp_path, spark=spark, config=Config(local_tuples=0)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_other_means_have_the_same_answers(name):
    found = getattr(examples_oracle, name)(EXAMPLES / name)
    assert found and found == {
        relation: set(examples_oracle.rows(EXAMPLES / name / "expected" / f"{relation}.csv")) for relation in found
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_comment_on_top_says_what_it_is_for_and_how_to_run_it(name, run, tmp_path):
    text = (EXAMPLES / name / "program.dl").read_text()
    asked, *_ = text.split("\n")
    [command] = [line.removeprefix("//").strip() for line in text.split("\n") if line.startswith("//     semi-naive run ")]
    (tmp_path / "examples").symlink_to(EXAMPLES)
    status, out, err = run(*shlex.split(command)[1:])
    assert asked.startswith("// ") and (status, err) == (0, "")
    shown = {path.stem for path in (EXAMPLES / name / "expected").iterdir()}
    assert all(f"---------------\n{relation}\n" in out for relation in shown)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.dl")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_examples_are_formatted(path):
    assert formatted(path.read_text()) == path.read_text()


def test_the_page_lists_them_all():
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text()
    assert [name for name in NAMES if f"../examples/{name}/program.dl" not in page] == []
