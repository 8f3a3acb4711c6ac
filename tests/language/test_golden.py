"""Whole programs, one folder each in `programs`: program.dl, facts/, and in expected/ what has to come out, byte for byte.

`expected/stdout` is what the program prints; `functors.py` has its functors, if it has any. A new folder is a new test; what it
expects is checked by a person, once.
"""

from math import inf
from pathlib import Path

import pytest

from semi_naive import Config, Libraries, Program

FOLDERS = sorted(folder for folder in (Path(__file__).parent / "programs").iterdir() if (folder / "program.dl").exists())
NAMES = [folder.name for folder in FOLDERS]

LAYOUTS = {  # an answer may not depend on any of it
    "few buckets": dict(buckets=1, partitions=1),
    "many buckets": dict(buckets=16, partitions=3, refine=False, consolidate=False),
    "refined at once": dict(buckets=2, partitions=2, refinement_minimum=1, tolerance=1.0, grain=0.1, horizon=inf),
    "rolled over": dict(buckets=4, partitions=2, rollover_threshold=1),
}
# Each program under two of them, in turn; on Spark a few.
SPREAD = [(name, layout) for i, name in enumerate(NAMES) for layout in list(LAYOUTS)[i % 2 :: 2]]
ON_SPARK = {"equivalence": "few buckets", "lists": "many buckets", "mutual": "refined at once", "generations": "rolled over"}


def written(name: str, folder: Path, capsys, **running) -> dict[str, bytes]:
    """What the program writes and prints, by the name of the file."""
    source = Path(__file__).parent / "programs" / name
    functors = Libraries([path for path in [source / "functors.py"] if path.exists()])
    program = Program.from_file(source / "program.dl", functors=functors)
    with program.run(facts=source / "facts", only_outputs=True, **running) as result:
        result.write(folder)
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    printed = capsys.readouterr().out.encode()
    return found | ({"stdout": printed} if printed else {})


def expected(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (Path(__file__).parent / "programs" / name / "expected").iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_program(name, tmp_path, capsys):
    assert written(name, tmp_path, capsys) == expected(name)


@pytest.mark.parametrize("name, layout", SPREAD)
def test_program_on_partitions(name, layout, tmp_path, capsys, here):
    config = Config(local_tuples=0, **LAYOUTS[layout])
    assert written(name, tmp_path, capsys, spark=here, config=config) == expected(name)


@pytest.mark.parametrize("name, layout", ON_SPARK.items())
def test_program_on_spark(name, layout, tmp_path, capsys, spark):
    config = Config(local_tuples=0, **LAYOUTS[layout])
    assert written(name, tmp_path, capsys, spark=spark, config=config) == expected(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_folder_says_what_it_is_for(name):
    text = (Path(__file__).parent / "programs" / name / "program.dl").read_text()
    assert text.startswith("// ") and text.split("\n")[0].endswith(".")
