"""Ontologies as programs, by this engine, by Soufflé's compiler and by Nemo, from the shell: wall and processor time, peak
memory.

    python -m bench.ontologies [--rows el,universities,doctors] [--scale 1] [--souffle DIR] [--repeat 3] [--jobs N]
        [--toy] [--out FILE]

`el` classifies a generated ontology of normalised axioms, with a deep hierarchy of roles as Galen has one, by the completion
rules CR1 to CR6. `universities` are facts in the manner of LUBM. `doctors` is a data exchange that joins in one step. All are
seeded; `--scale 1` is some 36,000 axioms, 10 universities, 100,000 prescriptions. A peer that is not installed is left out.
The outputs must have the same lines.
"""

import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench.closure import WrongCount
from bench.command import command, parser_of, surroundings
from bench.compilers import compilers
from bench.side_by_side import NEMO, Task, beside_souffle, measured, table
from semi_naive.ra.tuple_at_a_time.machine import KERNELS

PROGRAMS = Path(__file__).parent / "programs" / "ontologies"
SEED = 3307
Facts = dict[str, list[tuple]]


def main(arguments=None) -> int:
    parser = parser_of("bench.ontologies", __doc__, MAKERS, timeout=600)
    parser.add_argument("--scale", type=float, default=1, help="how large the generated facts are (default: %(default)s)")
    parser.add_argument("--souffle", metavar="DIR", help="the folder that souffle is in (default: looked for on the PATH)")
    parser.add_argument("--jobs", type=int, help="cores of each run (default: all); 1 if the machine is not idle")
    options = parser.parse_args(arguments)
    options.compilers, options.suite, options.size = compilers(options.souffle), "ontologies", ""
    return command("bench.ontologies", options, run, lambda results: [table(results)], (WrongCount, ValueError))


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    for kernel in () if options.toy else KERNELS:
        kernel.compiled()  # once on a computer, as the binaries of Soufflé are
    results = {**surroundings(None, options), **beside_souffle(options), "rows": {}}
    has_nemo = find_spec("nmo_python") is not None
    results["engines"] += [NEMO] * has_nemo
    with tempfile.TemporaryDirectory(prefix="bench-ontologies-") as folder:
        for name in options.rows.split(","):
            if name not in MAKERS:
                raise ValueError(f"there is no row {name!r}: expected some of {', '.join(MAKERS)}")
            facts = write_facts(name, 0.005 if options.toy else options.scale, Path(folder) / name)
            nemo = [sys.executable, "-m", "bench.nemo_command", str(PROGRAMS / f"{name}.rls")]
            task, peers = Task(name, PROGRAMS / f"{name}.dl", facts), {NEMO: nemo} if has_nemo else {}
            results["rows"][name] = measured(task, Path(folder), options, peers)
    return results


def write_facts(name: str, scale: float, folder: Path) -> Path:
    """Make the facts of a row and write them to files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for relation, rows in MAKERS[name](np.random.default_rng(SEED), scale).items():
        with open(folder / f"{relation}.facts", "w") as file:
            file.writelines("\t".join(row) + "\n" for row in dict.fromkeys(rows))
    return folder


def el(rng, scale: float) -> Facts:
    """Normalised axioms of EL+. Concepts form a tree with some further parents, roles a deep one; a quarter of the concepts is
    defined, `A ≡ B ⊓ ∃r.C`, by an auxiliary concept; some roles are transitive along others."""
    concepts, roles = max(20, int(20_000 * scale)), max(6, int(600 * min(scale, 1) ** 0.5))
    c, r = (lambda n: f"C{n}"), (lambda n: f"r{n}")
    made: Facts = {name: [] for name in ("concept", "sub", "both", "some_right", "some_left", "sub_role", "chain")}
    parents = [0] + [int(i * rng.random() ** 0.5) for i in range(1, concepts)]
    for i in range(1, concepts):
        made["sub"].append((c(i), c(parents[i])))
        if rng.random() < 0.15:
            made["sub"].append((c(i), c(int(rng.integers(i)))))
    role_parents = [0] + [max(0, i - 1 - int(rng.geometric(0.03))) for i in range(1, roles)]
    made["sub_role"] = [(r(i), r(role_parents[i])) for i in range(1, roles)]
    for i in range(1, concepts):  # fillers are higher up, so that chains of links are short; a few have most
        if rng.random() < 0.5:
            made["some_right"].append((c(i), r(int(rng.integers(roles))), c(int(i * rng.random() ** 2))))
        if rng.random() < 0.25:
            helper, role, filler = f"D{i}", r(int(roles * rng.random() ** 2)), c(int(i * rng.random()))
            made["some_left"].append((role, filler, helper))
            made["both"].append((c(parents[i]), helper, c(i)))
            made["some_right"].append((c(i), role, filler))
    for t in rng.integers(roles // 2, roles, max(1, roles // 60)).tolist():
        made["chain"].append((r(t), r(role_parents[t]), r(t)))
    made["concept"] = [(c(i),) for i in range(concepts)]
    return made


def universities(rng, scale: float) -> Facts:
    """Universities with 15 to 25 departments; each has faculty, students, courses, publications in the proportions of LUBM."""
    names = ("head_of", "works_for", "member_of", "part_of", "kind", "advisor", "takes", "teaches", "assists", "degree_from")
    made: Facts = {name: [] for name in (*names, "author")}
    count = max(1, int(10 * scale))
    for u in range(count):
        made["kind"].append((f"u{u}", "university"))
        for d in range(int(rng.integers(15, 26)) if scale >= 0.1 else 2):
            _department(rng, made, f"u{u}", f"u{u}.d{d}", max(count, 20))
    return made


LEVELS = ("undergraduate", "masters", "doctoral")
STUDENTS = (("undergraduate", (8, 15), (2, 5), "course"), ("graduate", (3, 5), (1, 4), "graduate course"))
RANKS = {"full professor": (7, 11), "associate professor": (10, 15), "assistant professor": (8, 12), "lecturer": (5, 8)}


def _department(rng, made: Facts, university: str, at: str, count: int) -> None:
    """Add a department. count: the universities that degrees are from."""
    made["part_of"].append((at, university))
    made["kind"].append((at, "department"))
    for group in range(int(rng.integers(10, 21))):
        made["part_of"].append((f"{at}.g{group}", at))
        made["kind"].append((f"{at}.g{group}", "group"))
    staff = {rank: int(rng.integers(few, many)) for rank, (few, many) in RANKS.items()}
    faculty = [(f"{at}.{rank[:4]}{i}", rank) for rank, size in staff.items() for i in range(size)]
    made["kind"] += faculty
    made["head_of"].append((faculty[0][0], at))
    courses: dict[str, list[str]] = {"course": [], "graduate course": []}
    for person, rank in faculty:
        made["works_for"].append((person, at))
        made["degree_from"] += [(person, level, f"u{rng.integers(count)}") for level in LEVELS]
        for kind, found in courses.items():
            for _ in range(int(rng.integers(1, 3))):
                found.append(f"{at}.{kind[:4]}{len(found)}")
                made["teaches"].append((person, found[-1]))
        for i in range(int(rng.integers(5, 20)) if rank != "lecturer" else 3):
            made["kind"].append((f"{person}.p{i}", "article"))
            made["author"].append((f"{person}.p{i}", person))
    made["kind"] += [(course, kind) for kind, found in courses.items() for course in found]
    professors = [person for person, rank in faculty if rank != "lecturer"]
    for kind, each, taken, offered in STUDENTS:  # for each of the faculty; courses taken
        for i in range(len(faculty) * int(rng.integers(*each))):
            student = f"{at}.{kind[:5]}{i}"
            made["kind"].append((student, kind))
            made["member_of"].append((student, at))
            picked = rng.choice(len(courses[offered]), int(rng.integers(*taken)), replace=False)
            made["takes"] += [(student, courses[offered][j]) for j in picked]
            if kind == "graduate":
                made["degree_from"].append((student, "undergraduate", f"u{rng.integers(count)}"))
                if i % 5 == 0:
                    made["assists"].append((student, courses["course"][int(rng.integers(len(courses["course"])))]))
            if kind == "graduate" or i % 5 == 0:
                made["advisor"].append((student, professors[int(rng.integers(len(professors)))]))


def doctors(rng, scale: float) -> Facts:
    """Treatments and prescriptions that are exchanged between two schemas, as in the doctors scenario of ChaseBench."""
    n = max(20, int(100_000 * scale))
    people = [f"p{i}" for i in range(n // 5)]
    pick = rng.integers(0, len(people), (2, n)).tolist()
    return {
        "prescription": [(f"x{i}", f"p{a}", f"npi{b % 500}", f"c{i % 97}") for i, (a, b) in enumerate(zip(*pick, strict=True))],
        "medical_prescription": [(f"x{i}", f"d{i % 1013}") for i in range(n)],
        "doctor": [(f"npi{i}", f"doctor {i}", f"s{i % 40}", f"h{i % 60}") for i in range(500)],
        "treatment": [(f"t{i}", f"p{a}", f"h{b % 60}") for i, (a, b) in enumerate(zip(*pick, strict=True))],
        "patient": [(each, f"name {i % 9000}") for i, each in enumerate(people)],
    }


MAKERS: dict[str, Callable[..., Facts]] = {"el": el, "universities": universities, "doctors": doctors}

if __name__ == "__main__":
    sys.exit(main())
