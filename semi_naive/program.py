"""Datalog programs: compiled once, then run on facts any number of times.

from semi_naive import Program

program = Program(".decl edge(x: number, y: number) ... path(x, z) :- path(x, y), edge(y, z).")
program.run(facts={"edge": [(1, 2), (2, 3)]})["path"].to_pandas()
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from semi_naive.config import Config
from semi_naive.host.account import open_account, part
from semi_naive.host.memory import uncollected
from semi_naive.host.numbers import quantity, with_article
from semi_naive.io.errors import BadInput
from semi_naive.language import check_source, compile_text
from semi_naive.notebooks.progress import showing
from semi_naive.planning.rewriting.passes import Compiled, apply_passes
from semi_naive.ra import ir
from semi_naive.sandbox import Sandbox

if TYPE_CHECKING:
    from semi_naive.language.syntax import SourceProgram
    from semi_naive.libraries import Libraries
    from semi_naive.running.results.answers import Result
    from semi_naive.session.session import Session

Path: TypeAlias = str | os.PathLike[str]
Functors: TypeAlias = "Mapping[str, Callable] | Libraries | None"


@contextmanager
def compiling() -> Iterator[None]:
    """Charge the block to the part "compile" of the account, and switch off Python's cycle collector, which takes 2 of 5.5 s
    for a program of 5,000 rules."""
    with uncollected(), part("compile"):
        yield


class Program:
    """A checked program. Raises `ProgramError`, which lists all errors with their positions.

    text: the program in Soufflé's dialect. file: its name in errors. include_dirs: further folders for .include and #include.
    defines: macros, {"N": "10"}. functors: {name: function} for the program's .functor declarations, or `Libraries` (see
    `semi_naive.functors`). legacy: accept an old program, as Soufflé's --legacy does. sandbox: the folder that contains all
    includes, .input and .output; without it the program may read and write every file that its user may.
    """

    sandbox: Sandbox | None = None

    @compiling()
    def __init__(
        self, text: str, file: str = "<program>", include_dirs: Sequence[Path] = (), defines: Mapping[str, str] | None = None,
        sandbox: Path | None = None, functors: Functors = None, legacy: bool = False,
    ):  # fmt: skip
        if isinstance(text, os.PathLike) or text.endswith(".dl") and len(text.split()) == 1:
            path = os.fspath(text)
            raise BadInput(f"{path} is the name of a file, and no program", hint=f"Program.from_file({path!r}) reads it")
        self.name, self.sandbox = file, Sandbox(sandbox) if sandbox else None
        given: Any = {} if functors is None else functors
        self.checked = compile_text(text, file, include_dirs, defines or {}, self.sandbox, given, legacy)

    @classmethod
    @compiling()
    def from_file(
        cls, path: Path, include_dirs: Sequence[Path] = (), defines: Mapping[str, str] | None = None,
        sandbox: Path | None = None, functors: Functors = None, legacy: bool = False,
    ) -> "Program":  # fmt: skip
        """Read the program in a file, which may be outside of the sandbox. Raises FileNotFoundError if it is missing."""
        from semi_naive.language.parsing.parse import parse_file  # loads a parser, which rules that are data do without

        name, inside = os.fspath(path), Sandbox(sandbox) if sandbox else None
        return cls.from_source(parse_file(name, include_dirs, defines or {}, inside, legacy), name, functors, inside)

    @classmethod
    @compiling()
    def from_source(
        cls, source: "SourceProgram", file: str = "<program>", functors: Functors = None, sandbox: Sandbox | None = None
    ) -> "Program":
        """Check a program that is given as a syntax tree (`semi_naive.language.syntax.SourceProgram`) instead of text."""
        return cls.from_checked(check_source(source, functors={} if functors is None else functors), file, sandbox)

    @classmethod
    def from_checked(cls, checked: ir.Program, file: str = "<rules>", sandbox: Sandbox | None = None) -> "Program":
        """Make a program of checked, typed rules."""
        program = cls.__new__(cls)
        program.name, program.checked, program.sandbox = file, checked, sandbox
        return program

    @classmethod
    def from_rules(
        cls, relations: dict, rules: Iterable, outputs: Iterable[str] | None = None, types: dict | None = None,
        file: str = "<rules>",
    ) -> "Program":  # fmt: skip
        """Make a program from plain data: see `semi_naive.rules`.

        relations: {name: {attribute: type}}. rules: tuples (head, literal, …). outputs: the relations that are written; None:
        those with rules. types: {name: {field: type}} of records, {name: type} of subtypes.
        """
        from semi_naive.rule_source import syntax_of_rules

        return cls.from_source(syntax_of_rules(relations, rules, outputs, types, file), file)

    @property
    def warnings(self) -> list:
        """Probable mistakes that are not errors, each with its position."""
        return self.checked.warnings

    @property
    def relations(self) -> dict[str, ir.Relation]:
        """All declared relations, by name."""
        return self.checked.relations

    @property
    def outputs(self) -> list[str]:
        """The relations that the program writes."""
        return list(dict.fromkeys(d.relation for d in self.checked.directives if d.kind in ("output", "printsize")))

    @property
    def inputs(self) -> list[str]:
        """The relations that the program reads."""
        return list(dict.fromkeys(d.relation for d in self.checked.directives if d.kind == "input"))

    @compiling()
    def compile(self, facts: Any = None, only_outputs: bool = False, limited: bool = False, once: bool = True) -> Compiled:
        """Return the program after the passes, which is cached. Relations that get `facts` from Python count as inputs.

        only_outputs: relations that no output needs may be left out.
        limited: iterations are counted (`Config.max_iterations`), so that passes must not change their number.
        once: no session will maintain its relations.
        """
        named = frozenset(facts) - set(self.inputs) if isinstance(facts, dict) else frozenset()
        for name in named:
            if name in self.relations and self.relations[name].summed:
                hint = "give them to another relation, and copy them by a rule"
                why = "aggregated in its heads" if name in self.checked.sums else "evaluated in steps"
                raise BadInput(f"{name} is {why} and takes no facts", hint=hint)
        whole = _facts_of_other_runs(facts)
        key = named, only_outputs, limited, once, whole
        if key not in self._compiled:
            keep = set(self.outputs) if only_outputs else None
            self._compiled[key] = apply_passes(self.checked, keep, [*self.inputs, *sorted(named)], limited, once, whole)
        return self._compiled[key]

    @cached_property
    def _compiled(self) -> dict[tuple, Compiled]:
        return {}

    def run(
        self, facts: Any = None, spark: Any = None, config: Config | None = None, progress: Callable | bool | None = None,
        lenient: bool = False, only_outputs: bool = False, watch: Callable | None = None, plan: str = "auto", **options: Any,
    ) -> "Result":  # fmt: skip
        """Evaluate the program. Returns a `Result`.

        facts: a folder that .input directives read from, or {relation: data}: a path or a pattern of paths (edges/*.parquet), a
            Spark or pandas DataFrame, an Arrow table, an (n, arity) array, an iterable of tuples, a networkx DiGraph, a
            `semi_naive.io.Source`. None: the working directory. Large files, and DataFrames of more rows than
            Config.local_tuples, are read by Spark's tasks.
        spark: a SparkSession or SparkContext, or a function that returns one when it is needed; None: the active one, or
            an embedded one. Strata that stay small do not need Spark: see Config.local_tuples.
        progress: called as progress(stratum, number, of, iteration, delta, tuples) after each iteration. None shows a bar in a
            notebook, once a run has taken a second; True shows one on a terminal, too; False shows none.
        watch: called once, before facts are read, with a function that returns a copy of the record so far whenever it is
            called, from any thread; the last stratum of the record is the one being evaluated.
        plan: "auto"; "decomposed": decompose every recursive stratum into independent groups, ValueError if one has none;
            "balanced": decompose no stratum. Under "auto" and "balanced" the driver evaluates small strata.
        lenient: a missing facts file is an empty relation. only_outputs: compute only the relations of .output and .printsize,
            and read only the columns and rows of facts that these need; then the result has no proofs.
        options: tunables, by the names in `Config`.

        Raises `BadInput` for facts that cannot be read, `EvaluationError` for a division by zero and the like.
        """
        _check_given(facts)
        with open_account():
            with part("start"):
                from semi_naive.running.run import ProgramRun
            config = (config or Config()).with_options(options)
            pushed = only_outputs and config.null == ir.NULL_IS_ERROR  # otherwise a missing value counts in any column
            compiled = self.compile(facts, pushed, config.max_iterations is not None)
            with showing(progress, self.name, "stratum") as report:
                return ProgramRun(self, compiled, config, spark, report, watch, plan).run(facts, lenient)

    def session(
        self, facts: Any = None, path: Path | None = None, retain: int | Mapping[str, int] = 0, spark: Any = None,
        config: Config | None = None, sync_seconds: float = 0.0, **options: Any,
    ) -> "Session":  # fmt: skip
        """Start a `semi_naive.session.session.Session`: it keeps the relations at their fixed point while facts change.

        facts: as for `run`. A relation with an .input and without facts starts empty; None: all do. The facts of relations with
            an .input, and of relations in `facts`, can be changed.
        path: a directory that makes the session durable: a transaction is on the disk before it is seen, and a later session
            with this directory resumes after the last transaction. Facts are read only when the directory is new.
        sync_seconds: the longest time that a transaction may be in the system's memory only; 0: none.
        retain: the number of epochs before the last one that are kept for `at`, also in the directory `path`; or this number by
            relation, as {"path": 100, "*": 2}, where "*" stands for all others, by default 0.
        spark, config, options: as for `run`.

        The session starts with a run. Then delta rules maintain each stratum that a change affects; a stratum is recomputed if
        the change exceeds its budget (`Config.follow`). Raises ValueError for a program with autoinc() or .limitsize.
        """
        from semi_naive.session.session import Session

        _check_given(facts)
        return Session(self, facts, path, retain, spark, (config or Config()).with_options(options), sync_seconds)

    def explain(
        self, facts: Any = None, config: Config | None = None, only_outputs: bool = False, plan: str = "auto", **options: Any
    ) -> str:
        """Return the strata and their plans, the rules' delta versions, their join orders and why, and the indexes, as text.

        Plans and orders depend on the sizes of relations: with `facts`, as for `run`, they are the initial ones of a run on
        these. Nothing is evaluated. A facts file that is missing is an empty relation.
        """
        from semi_naive.planning.explain.planned import explained

        _check_given(facts)
        return explained(self, facts, only_outputs, (config or Config()).with_options(options), plan)

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import program_shown

        return program_shown(self)

    def __repr__(self) -> str:
        program = self.checked
        counts = f"{quantity(len(program.relations), 'relation')}, {quantity(len(program.rules), 'rule')}"
        outputs = ", ".join(self.outputs[:5]) + ", …" * (len(self.outputs) > 5)
        return f"<Program {self.name}: {counts}; outputs: {outputs or 'none'}>"


def _facts_of_other_runs(facts: Any) -> frozenset[str]:
    """Return the relations whose facts are tables of another run, which are used without a copy."""
    if not isinstance(facts, dict) or not facts:
        return frozenset()
    from semi_naive.ra.blocks.table import Table
    from semi_naive.running.relations.spread import Spread

    return frozenset(name for name, data in facts.items() if isinstance(data, Table | Spread))


def _check_given(facts: Any) -> None:
    """Raise BadInput for facts that do not name their relation."""
    if not isinstance(facts, None | str | os.PathLike | dict):
        hint = "facts is a folder, or {relation: data}: facts={'edge': …}"
        raise BadInput(f"{with_article(type(facts).__name__)} does not say of which relation its facts are", hint=hint)
