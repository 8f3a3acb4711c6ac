"""Mutants of real programs: each runs, or is one clear error with a place. Bounded: few tuples, few iterations.

text = random_mutant(random.Random(seed), programs()); finding = trouble(text, folder)
"""

import re
from pathlib import Path

from semi_naive import BadInput, EvaluationError, Program, ProgramError

ROOT = Path(__file__).parents[2]
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|[A-Za-z_?][\w?]*|\d+(?:\.\d+)?|:-|<=|>=|!=|\s+|.', re.DOTALL)
ODD = (
    ".decl .input .output .type .comp .init .plan .include #include #if inline eqrel magic ( ) { } [ ] :- . , ; : ! = != < _ $"
    ' @f nil " /* */ // \\ \0 é \ufeff 0 -1 9223372036854775808 1e999 0x 1.5 1u count sum min max range cat match to_number'
    " autoinc() as number symbol unsigned float \n \r ^ bshl **"
).split(" ")
ODD += ["#define A A", "9" * 5000, "(" * 300, "-" * 300, "x" * 3000, "/ 0", "% 0"]
OPTIONS = {"max_iterations": 20, "local_tuples": 1 << 40}


def programs() -> list[str]:
    """Programs of the tests and of the benchmark, their facts left out."""
    paths = sorted([*(ROOT / "tests" / "language" / "programs").glob("*/*.dl"), *(ROOT / "bench" / "programs").glob("*.dl")])
    return [path.read_text() for path in paths]


def random_mutant(random, texts: list[str]) -> str:
    """A program some of whose tokens are gone, twice there, at another's place or others."""
    tokens = TOKEN.findall(random.choice(texts))[:1500]
    donor = TOKEN.findall(random.choice(texts))
    for _ in range(random.choice([1, 1, 2, 3, 8])):
        at, to = sorted((random.randrange(len(tokens) + 1), random.randrange(len(tokens) + 1)))
        to = min(to, at + random.choice([1, 1, 2, 10, 50]))
        begin = random.randrange(len(donor))
        kind = random.choice(["cut", "double", "odd", "odd", "other", "swap", "bytes"])
        if kind == "cut":
            tokens[at:to] = []
        elif kind == "double":
            tokens[to:to] = tokens[at:to]
        elif kind == "odd":
            tokens[at : at + random.choice([0, 1])] = [random.choice(ODD)]
        elif kind == "other":
            tokens[at:to] = donor[begin : begin + random.choice([1, 5, 20])]
        elif kind == "swap" and to < len(tokens):
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif kind == "bytes":
            tokens[at:at] = [chr(random.choice([0, 7, 13, 27, 127, 160, 0x2028, 0xDC80, 0xFEFF, 0x1F600]))]
    return "".join(tokens)


def trouble(text: str, folder) -> str | None:
    """What is wrong about how a program is refused; None if nothing is. Whatever is no error of ours is raised. Its files are
    in `folder`, and missing facts are no facts."""
    try:
        program = Program(text, "p.dl", sandbox=folder)
        with program.run(str(folder), lenient=True, **OPTIONS) as result:
            result.write(folder)
    except ProgramError as error:
        placed = all(problem.span.line >= 1 and problem.span.column >= 1 and problem.message for problem in error.problems)
        return None if placed and error.problems else f"no place: {error}\n{text}"
    except (BadInput, EvaluationError) as error:
        return None if str(error) else f"says nothing: {error!r}\n{text}"
    return None
