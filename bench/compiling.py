"""Programs of thousands of rules, from the shell: processor time and memory for each rule.

    python -m bench.compiling [--rows rules,branches,files] [--sizes 1000,4000,16000] [--repeat 3] [--toy] [--out FILE]

rules     so many rules in one recursion, over 49 edges
branches  chains of rules that wrap a value in one of 12 branches of a type for each link, a quarter as many links as rules
files     so many relations, each with a file of one line
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.command import command, parser_of, say, surroundings

EDGES = sorted({(i % 13, i * 7 % 13) for i in range(50)})
WRAPPED = 12  # branches for each link of a chain
SEED = 5


def main(arguments=None) -> int:
    return command("bench.compiling", parsed(arguments), run, lambda results: [table(results)], (ValueError,))


def parsed(arguments):
    parser = parser_of("bench.compiling", __doc__, PROGRAMS, timeout=600)
    parser.add_argument("--sizes", default="1000,4000,16000", help="rules, separated by commas (default: %(default)s)")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    results = {**surroundings(None, options), "rows": {}}
    for name in options.rows.split(","):
        if name not in PROGRAMS:
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join(PROGRAMS)}")
        for size in (40,) if options.toy else map(int, options.sizes.split(",")):
            with tempfile.TemporaryDirectory(prefix="bench-compiling-") as folder:
                text, facts = PROGRAMS[name](size)
                written(Path(folder), text, facts)
                samples = [shell(Path(folder), options.timeout) for _ in range(options.repeat)]
            say(f"{name} {size}: {samples[-1]}")
            results["rows"][f"{name} {size}"] = {"size": size, "samples": samples}
    return results


def rules(count: int) -> tuple[str, dict[str, list[str]]]:
    draw, groups = random.Random(SEED), count // 4
    lines = [".decl e(x: number, y: number)", ".input e", ".output p0"]
    lines += [f".decl p{i}(x: number, y: number)" for i in range(groups)]
    for i in range(groups):
        other, one, two, last = (i + 1) % groups, *(draw.randrange(groups) for _ in range(3))
        lines += [
            f"p{i}(x, y) :- e(x, y), x < {i % 50}.",
            f"p{i}(x, z) :- p{other}(x, y), e(y, z).",
            f"p{i}(x, y) :- p{one}(x, y), p{two}(y, x).",
            f"p{i}(x, y) :- p{last}(x, y), x > {i % 7}.",
        ]
    return "\n".join(lines), {"e": [f"{x}\t{y}" for x, y in EDGES]}


def branches(count: int) -> tuple[str, dict[str, list[str]]]:
    draw, links = random.Random(SEED), count // 4
    wraps = [f"W{i}_{k} {{a: T, b: T}}" for i in range(links) for k in range(WRAPPED)]
    lines = [f".type T = Left {{x: number}} | Right {{x: number}} | {' | '.join(wraps)}"]
    lines += [f".decl q{i}(x: T, y: T)" for i in range(links + 1)]
    lines += [".decl start(x: number)", ".input start", ".decl length(n: number)\n.output length"]
    lines += ["q0($Left(x), $Right(x)) :- start(x).", f"length(n) :- n = count : {{ q{links}(_, _) }}."]
    for i in range(links):
        chosen = draw.randrange(WRAPPED)
        lines += [
            f"q{i + 1}($W{i}_{chosen}(x, y), y) :- q{i}(x, y).",
            f"q{i + 1}(x, y) :- q{i}(x, y), q{i}(y, x).",
            f"q{i + 1}(x, y) :- q{i}($W{i}_{(chosen + 1) % WRAPPED}(x, _), y).",
            f"q{i + 1}(x, x) :- q{i}(x, y), x = y.",
        ]
    return "\n".join(lines), {"start": ["1", "2", "3"]}


def files(count: int) -> tuple[str, dict[str, list[str]]]:
    lines = [f".decl f{i}(x: number)\n.input f{i}\nq(x + {i}) :- f{i}(x)." for i in range(count)]
    return "\n".join([".decl q(x: number)", ".output q", *lines]), {f"f{i}": [str(i % 5)] for i in range(count)}


PROGRAMS = {"rules": rules, "branches": branches, "files": files}


def written(folder: Path, text: str, facts: dict[str, list[str]]) -> None:
    (folder / "program.dl").write_text(text)
    for name, lines in facts.items():
        (folder / f"{name}.facts").write_text("".join(f"{line}\n" for line in lines))


def shell(folder: Path, timeout: float) -> dict:
    """What `semi-naive run` takes; see `bench.watched`. Raises ValueError if it fails."""
    ours = [sys.executable, "-m", "semi_naive", "run", "program.dl", "-F", ".", "-D", "out", "--quiet"]
    watched = [sys.executable, "-m", "bench.watched", str(timeout), "watched.json", *ours]
    (folder / "out").mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(watched, cwd=folder, env=env, capture_output=True, text=True)
    found = json.loads((folder / "watched.json").read_text())
    if found["status"] and not found["stopped"]:
        raise ValueError(f"the program failed: {done.stderr[-1000:]}")
    return found


def table(results: dict):
    from rich.table import Table

    made = Table(title="Programs of many rules: medians")
    for column in ("program", "seconds", "processor", "ms a rule", "memory, MB"):
        made.add_column(column, justify="left" if column == "program" else "right")
    for name, row in results["rows"].items():
        wall, processor, used = (statistics.median(s[key] for s in row["samples"]) for key in ("seconds", "processor", "bytes"))
        made.add_row(name, f"{wall:.2f}", f"{processor:.2f}", f"{1e3 * processor / row['size']:.2f}", f"{used / 1e6:,.0f}")
    return made


if __name__ == "__main__":
    sys.exit(main())
