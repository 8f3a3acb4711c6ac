"""Runs of random cases by Soufflé, with 64 bits, whose answers the oracle must have, too."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.fuzz.cases import Case
from bench.fuzz.checks import same_relations, solved
from bench.fuzz.texts import datalog, lines

# Soufflé has no lattices and no aggregates in heads, chooses in another order, cuts letters, compares the bits of floats, and
# subsumes later. It refuses many aggregates inside of aggregates, and of several atoms with variables from outside ("Unable to
# ground parameter in materialisation-requiring aggregate body"), or answers wrongly; so it does when an equivalence is
# searched for -2**63, or for 2**63 unsigned, which are its mark of a column that is not bound.
BEYOND = frozenset(
    {"choices", "injected", "lattices", "letters", "middle", "nested", "powers", "self-subsumption", "sums", "zeros"}
)
SECONDS = 60


class Refused(Exception):
    """Soufflé refuses a program, or ends with an error."""


def souffle_of(folder: str | None = None) -> str | None:
    """The path of Soufflé: in the folder, in that of SEMI_NAIVE_SOUFFLE, or on the PATH."""
    folder = folder or os.environ.get("SEMI_NAIVE_SOUFFLE")
    return shutil.which("souffle", path=folder) if folder else shutil.which("souffle")


def agrees_with_souffle(case: Case, souffle: str) -> None:
    """Raise an AssertionError if Soufflé answers otherwise than the oracle."""
    found, tuples = answers(case, souffle), solved(case)
    same_relations(found, {name: set(lines(tuples[name])) for name in found}, "by Soufflé")


def answers(case: Case, souffle: str) -> dict[str, set[str]]:
    """The lines of each output."""
    with TemporaryDirectory(prefix="fuzz-souffle-") as name:
        folder = Path(name)
        (folder / "program.dl").write_text(datalog(case.program) + "\n")
        for relation, rows in case.facts.items():
            (folder / f"{relation}.facts").write_text("".join(f"{line}\n" for line in lines(rows)))
        command = [souffle, "-w", "program.dl", "-F", ".", "-D", "."]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise Refused(done.stderr[done.stderr.find("Error") :])
        return {path.stem: set(path.read_text().splitlines()) for path in folder.glob("*.csv")}
