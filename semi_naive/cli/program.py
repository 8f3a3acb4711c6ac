"""Where a command has its program from: a file, standard input, or -e; and the facts that -F names for it."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from semi_naive.io.errors import BadInput
from semi_naive.io.files import io_errors

NOTHING: Mapping[str, str] = MappingProxyType({})
NAMED = re.compile(r"([A-Za-z_?][\w?.]*)=(.+)", re.DOTALL)
DATA = ".facts", ".tsv", ".csv", ".mtx", ".gz", ".json", ".parquet", ".sqlite", ".db"  # which no program's name ends with
LINE = "-e"  # what messages call a program of the command line


@dataclass
class FactOptions:
    """What -F says: a folder, and files or patterns of files of relations. header: these begin with a line of names."""

    folder: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    header: bool = False

    @classmethod
    def given(cls, texts, header: bool = False) -> "FactOptions":
        """The facts of some -F, each a folder or NAME=FILE. BadInput for two of a kind."""
        facts = cls(header=header)
        for text in texts:
            named = None if os.path.isdir(text) else NAMED.fullmatch(text)
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
        """The facts of a `Program`, as it takes them, where its own .input start from a folder."""
        if not self.files:
            return folder
        for directive in program.checked.directives:
            if directive.kind == "input":
                directive.parameters.setdefault("fact-dir", folder)
        return {name: self._source(program, name, path) for name, path in self.files.items()}

    def of_session(self, program):
        """The same for a session, which begins with what -F names and nothing else; files that a folder lacks have no facts."""
        if not self.files:
            return self.folder
        beside = {} if self.folder is None else self._of_folder(program, self.folder)
        return beside | {name: self._source(program, name, path) for name, path in self.files.items()}

    def _of_folder(self, program, folder: str) -> dict:
        """What .input says of the relations that no -F names, as sources."""
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
        from semi_naive.io.python_data import file_facts

        if not self.header or name not in program.relations:
            return path
        return file_facts(path, program.relations[name], program.checked.types, header=True)


@dataclass
class Origin:
    """A program that is not read yet. path: "-" is standard input. rules: the text of -e, in which declarations may be left
    out; what `facts` has to say of them is filled in."""

    path: str
    rules: str | None = None
    facts: FactOptions = field(default_factory=FactOptions)

    @property
    def name(self) -> str:
        """What messages call it."""
        return LINE if self.rules is not None else "<stdin>" if self.path == "-" else self.path

    def source(self, reading: dict):
        """The syntax tree. reading: what `parse` takes."""
        from semi_naive.language.parse import parse, parse_file

        if self.rules is not None:
            return self._completed(parse(self.rules, self.name, **reading), reading.get("sandbox"))
        if self.path == "-":
            return parse(sys.stdin.read(), self.name, **reading)
        check_readable(self.path)
        return parse_file(self.path, **reading)

    def _completed(self, source, sandbox):
        """With the declarations that it leaves out. A relation without rules may have NAME.facts in the folder."""
        from semi_naive.io.columns import inferred_columns
        from semi_naive.language.undeclared import undeclared, with_declarations

        found = undeclared(source)
        for name in (name for name, ruled in found.items() if not ruled and name not in self.facts.files):
            path = os.path.join(self.facts.folder or ".", f"{name}.facts")
            if os.path.isfile(path) and not (sandbox and not sandbox.holds(path)):
                self.facts.files[name] = path
        files = {name: path for name, path in self.facts.files.items() if name in found}
        return with_declarations(
            source, {name: inferred_columns(path, self.facts.header, name) for name, path in files.items()}
        )

    def checked(self, reading: dict, pragmas: Mapping[str, str] = NOTHING):
        """The `Program`. reading: how it is read, as `Program` takes it. pragmas: in place of those that it has itself."""
        from semi_naive.program import Program, compiling

        with compiling():
            functors, sandbox = reading.get("functors"), reading.get("sandbox")
            source = self.source({name: value for name, value in reading.items() if name != "functors"})
            source = with_inputs(with_other(source, pragmas), self.facts.files)
            return Program.from_source(source, self.name, functors, sandbox)


def with_other(source, pragmas: Mapping[str, str]):
    """The syntax tree with these pragmas, and no others of their names."""
    from semi_naive.language.syntax import Pragma

    kept = [each for each in source.statements if not (isinstance(each, Pragma) and each.key in pragmas)]
    return replace(source, statements=kept + [Pragma(key, value) for key, value in pragmas.items()])


def with_inputs(source, names):
    """The syntax tree with an .input of these relations, where they are declared and have none."""
    from semi_naive.language.syntax import Directive, RelationDecl

    read = {each.relation for each in source.statements if isinstance(each, Directive) and each.kind == "input"}
    found = [each for each in source.statements if isinstance(each, RelationDecl) and each.name in names]
    made = [Directive("input", each.name, span=each.span) for each in found if each.name not in read]
    return replace(source, statements=source.statements + made)


def check_readable(program: str) -> None:
    """An error that names a file that cannot be read, or that is no program by its name."""
    if program.endswith(DATA):
        hint = f"-F NAME={program} reads it as the facts of a relation; its closure: semi-naive tc {program}"
        raise BadInput("facts, where a program is expected", program, hint=hint)
    with io_errors(program), open(program, "rb"):
        pass
