"""The program of a command, given by a file, standard input, or -e; and the facts given by -F."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from semi_naive.io.errors import BadInput
from semi_naive.io.files import COMPRESSED, io_errors

NOTHING: Mapping[str, str] = MappingProxyType({})
NAMED_FILE = re.compile(r"([A-Za-z_?][\w?.]*)=(.+)", re.DOTALL)
# The extensions of data, never of programs.
DATA = (".facts", ".tsv", ".csv", ".mtx", ".json", ".jsonl", ".parquet", ".arrow", ".feather", ".sqlite", ".db", *COMPRESSED)
RULES_NAME = "-e"  # the name of a program given by -e, in messages


@dataclass
class FactOptions:
    """The values of -F: a folder, and files or patterns of files of relations. header: the files begin with a line of names."""

    folder: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    header: bool = False

    @classmethod
    def given(cls, texts, header: bool = False) -> "FactOptions":
        """Parse values of -F, each a folder or NAME=FILE. Raises BadInput for two folders, or two files of one relation."""
        facts = cls(header=header)
        for text in texts:
            named = None if os.path.isdir(text) else NAMED_FILE.fullmatch(text)
            if named and named[1] in facts.files:
                raise BadInput(f"-F {text}: {named[1]} is named twice", hint="a pattern stands for several files: edges/*.tsv")
            if not named and facts.folder is not None:
                raise BadInput(f"-F {text}: there are two folders", hint=f"-F NAME=FILE is for the facts of a relation: {text}")
            if named:
                facts.files[named[1]] = named[2]
            else:
                facts.folder = text
        if header and not facts.files:
            raise BadInput("--header is of files that -F NAME=FILE names", hint=".input has headers=true")
        return facts

    def of(self, program, folder: str):
        """Return the facts for `Program.run`. folder: the base of the paths of the program's own .input."""
        if not self.files:
            return folder
        for directive in program.checked.directives:
            if directive.kind == "input":
                directive.parameters.setdefault("fact-dir", folder)
        return {name: self._source(program, name, path) for name, path in self.files.items()}

    def of_session(self, program):
        """Return the initial facts of a session: those given by -F. A missing file in the folder is an empty relation."""
        if not self.files:
            return self.folder
        beside = {} if self.folder is None else self._of_folder(program, self.folder)
        return beside | {name: self._source(program, name, path) for name, path in self.files.items()}

    def _of_folder(self, program, folder: str) -> dict:
        """Return the sources of the relations that no -F names, by the program's .input."""
        from semi_naive.io.directives import Options
        from semi_naive.io.reading import source_of_directive
        from semi_naive.io.sources import Files

        options, types = Options(missing_ok=True, warn=lambda text: None), program.checked.types
        found: dict[str, list] = {}
        for each in program.checked.directives:
            if each.kind == "input" and each.relation not in self.files:
                source = source_of_directive(each, program.relations[each.relation], types, folder, options)
                found.setdefault(each.relation, []).append(source)
        return {name: Files(program.relations[name], types, folder, tuple(parts)) for name, parts in found.items()}

    def _source(self, program, name: str, path: str):
        """Return the path of a relation's facts; with --header, a source that skips the line of names."""
        from semi_naive.io.reading import source_of_path
        from semi_naive.io.values.bits import BUILT_IN

        if not self.header or name not in program.relations:
            return path
        return source_of_path(path, program.relations[name], BUILT_IN | program.checked.types, header=True)


@dataclass
class Origin:
    """A program that has not been read. path: "-" is standard input. rules: the text of -e; missing declarations in it are
    inferred with the help of `facts`.
    """

    path: str
    rules: str | None = None
    facts: FactOptions = field(default_factory=FactOptions)

    @property
    def name(self) -> str:
        """The program's name in messages."""
        return RULES_NAME if self.rules is not None else "<stdin>" if self.path == "-" else self.path

    def source(self, reading: dict):
        """Return the syntax tree. reading: options of `parse`."""
        from semi_naive.language.parsing.parse import parse, parse_file

        if self.rules is not None:
            return self._completed(parse(self.rules, self.name, **reading), reading.get("sandbox"))
        if self.path == "-":
            return parse(sys.stdin.read(), self.name, **reading)
        check_readable(self.path)
        return parse_file(self.path, **reading)

    def _completed(self, source, sandbox):
        """Return the syntax tree of -e with the missing declarations. For a relation without rules, a file NAME.facts in the
        folder of facts is added to the files of `facts`."""
        from semi_naive.io.columns import inferred_columns
        from semi_naive.language.types.undeclared import undeclared, with_declarations

        found = undeclared(source)
        for name in (name for name, has_rules in found.items() if not has_rules and name not in self.facts.files):
            path = os.path.join(self.facts.folder or ".", f"{name}.facts")
            if os.path.isfile(path) and not (sandbox and not sandbox.holds(path)):
                self.facts.files[name] = path
        files = {name: path for name, path in self.facts.files.items() if name in found}
        return with_declarations(
            source, {name: inferred_columns(path, self.facts.header, name) for name, path in files.items()}
        )

    def checked(self, reading: dict, pragmas: Mapping[str, str] = NOTHING):
        """Return the checked `Program`. reading: options of `Program`. pragmas: these replace the program's own."""
        from semi_naive.program import Program, compiling

        with compiling():
            functors, sandbox = reading.get("functors"), reading.get("sandbox")
            # `parse` takes the other options; functors are for the check.
            source = self.source({name: value for name, value in reading.items() if name != "functors"})
            source = with_inputs(with_pragmas(source, pragmas), self.facts.files)
            return Program.from_source(source, self.name, functors, sandbox)


def with_pragmas(source, pragmas: Mapping[str, str]):
    """Return the syntax tree with these pragmas in place of its own of the same names."""
    from semi_naive.language.syntax import Pragma

    kept = [each for each in source.statements if not (isinstance(each, Pragma) and each.key in pragmas)]
    return replace(source, statements=kept + [Pragma(key, value) for key, value in pragmas.items()])


def with_inputs(source, names):
    """Return the syntax tree with an .input for each of these relations that is declared and has none."""
    from semi_naive.language.syntax import Directive, RelationDecl

    read = {each.relation for each in source.inputs}
    declared = [each for each in source.of(RelationDecl) if each.name in names]
    inputs = [Directive("input", each.name, span=each.span) for each in declared if each.name not in read]
    return replace(source, statements=source.statements + inputs)


def check_readable(program: str) -> None:
    """Raise an error for a file that cannot be read, or whose name is not a program's."""
    if program.endswith(DATA):
        hint = f"-F NAME={program} reads it as the facts of a relation; its closure: semi-naive tc {program}"
        raise BadInput("facts, where a program is expected", program, hint=hint)
    with io_errors(program), open(program, "rb"):
        pass
