"""The language server, driven over its standard input and output as an editor does it; the names of programs; the extension."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from semi_naive.__main__ import main
from semi_naive.editor.names import Names
from semi_naive.language import check_source
from semi_naive.language.origins import read_text
from semi_naive.language.parsing.layout import formatted
from semi_naive.language.parsing.parse import parse, parse_all, words

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
PROGRAMS = sorted([*ROOT.glob("tests/language/programs/*/program.dl"), *ROOT.glob("examples/*/program.dl")])
PATIENCE = 120  # seconds, on a machine that is busy

TOWNS = """.type Town <: symbol
// Where roads lead.
.decl road(x: Town, y: Town) // both ways are two roads
.input road
.comp Reach<T> {
    .decl step(x: T, y: T)
    .decl all(x: T, y: T)
    all(x, y) :- step(x, y).
    all(x, z) :- all(x, y), step(y, z).
}
.init towns = Reach<Town>
towns.step(x, y) :- road(x, y), x != "😀", y != x.
.decl far(x: Town)
far(x) :- towns.all(x, _).
.output far
"""


class Editor:
    """An editor with a server of its own, in a folder. Lines and columns count from 1, in characters."""

    def __init__(self, folder: Path):
        self.folder, self.client = folder, LanguageClient("editor of a test", "1")
        self.problems: dict[str, list] = {}
        self.told = asyncio.Condition()

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def published(params: lsp.PublishDiagnosticsParams):
            async with self.told:
                self.problems[Path(params.uri).name] = list(params.diagnostics)
                self.told.notify_all()

    async def start(self, **options):
        await self.client.start_io(sys.executable, "-m", "semi_naive", "lsp")
        given = lsp.InitializeParams(
            capabilities=lsp.ClientCapabilities(), root_uri=self.folder.as_uri(), initialization_options=options
        )
        return await asyncio.wait_for(self.client.initialize_async(given), PATIENCE)

    async def stop(self):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def document(self, name: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(name))

    def open(self, name: str, text: str | None = None):
        text = (self.folder / name).read_text() if text is None else text
        item = lsp.TextDocumentItem(self.uri(name), "semi-naive", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def type(self, name: str, text: str, version: int = 2):
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        document = lsp.VersionedTextDocumentIdentifier(version, self.uri(name))
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [whole]))

    async def sees(self, name: str, *messages: str):
        """Wait until these are the first lines of the problems of a file."""

        def shown():
            return name in self.problems and tuple(each.message.split("\n")[0] for each in self.problems[name]) == messages

        async with self.told:
            try:
                await asyncio.wait_for(self.told.wait_for(shown), PATIENCE)
            except TimeoutError:
                raise AssertionError(f"{name} has other problems: {self.problems}") from None

    def at(self, name: str, line: int, character: int) -> dict:
        return {"text_document": self.document(name), "position": lsp.Position(line - 1, character)}

    async def hover(self, name: str, line: int, character: int) -> str | None:
        found = await self.client.text_document_hover_async(lsp.HoverParams(**self.at(name, line, character)))
        return found and found.contents.value

    async def definition(self, name: str, line: int, character: int):
        found = await self.client.text_document_definition_async(lsp.DefinitionParams(**self.at(name, line, character)))
        return found and (Path(found.uri).name, found.range.start.line + 1, found.range.start.character)

    async def rename(self, name: str, line: int, character: int, new: str) -> dict[str, list[tuple[int, int, int]]]:
        made = await self.client.text_document_rename_async(lsp.RenameParams(new_name=new, **self.at(name, line, character)))
        return {
            Path(uri).name: [
                (edit.range.start.line + 1, edit.range.start.character, edit.range.end.character) for edit in edits
            ]
            for uri, edits in made.changes.items()
        }


def editing(folder: Path, steps, **options) -> None:
    """Run what somebody does in an editor."""

    async def session():
        editor = Editor(folder)
        await editor.start(**options)
        try:
            await steps(editor)
        finally:
            await editor.stop()

    asyncio.run(session())


def test_errors_are_told_while_somebody_types(tmp_path):
    async def steps(editor):
        editor.open("a.dl", ".decl a(x: number)\n.output a\na(x) :- b(x).\n")
        await editor.sees("a.dl", "Undefined relation b")
        [problem] = editor.problems["a.dl"]
        assert problem.range == lsp.Range(lsp.Position(2, 8), lsp.Position(2, 12))
        assert problem.severity == lsp.DiagnosticSeverity.Error and problem.message.endswith("declare it: .decl b(…)")
        editor.type("a.dl", ".decl a(x: number)\n.output a\na(1).\na(x) :- a(x), a(y).\n")
        await editor.sees("a.dl", "Variable y only occurs once")
        assert editor.problems["a.dl"][0].severity == lsp.DiagnosticSeverity.Warning
        editor.type("a.dl", ".decl a(x: number)\na(1\n.output a\n", 3)
        await editor.sees("a.dl", "syntax error, unexpected .output, expecting an operator, ')' or ','")
        assert editor.problems["a.dl"][0].related_information[0].message == "opened here"
        editor.type("a.dl", ".decl a(x: number)\na(1).\n.output a\n", 4)
        await editor.sees("a.dl")

    editing(tmp_path, steps)


def test_a_file_is_checked_as_a_part_of_what_includes_it(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "main.dl").write_text('.include "facts.dl"\n.decl a(x: number)\n.output a\n.include "common.dl"\n')
    (tmp_path / "facts.dl").write_text("a(1).\nb(2).\n")
    (tmp_path / "lib" / "common.dl").write_text("a(x) :- a(x), SMALL.\n")

    async def steps(editor):
        editor.open("facts.dl")
        await editor.sees("facts.dl", "Undefined relation b")
        editor.open("main.dl")
        await editor.sees("main.dl")
        assert await editor.definition("facts.dl", 1, 0) == ("main.dl", 2, 6)
        assert await editor.rename("main.dl", 2, 6, "c") == {
            "main.dl": [(2, 6, 7), (3, 8, 9)], "facts.dl": [(1, 0, 1)], "common.dl": [(1, 0, 1), (1, 8, 9)]
        }  # fmt: skip
        editor.type("facts.dl", "a(1).\n")  # which is not saved
        await editor.sees("facts.dl")
        editor.client.text_document_did_close(lsp.DidCloseTextDocumentParams(editor.document("facts.dl")))
        (tmp_path / "facts.dl").write_text("a(1).\na(y).\n")
        editor.client.text_document_did_save(lsp.DidSaveTextDocumentParams(editor.document("main.dl")))
        await editor.sees("facts.dl", "Argument in fact is not constant", "Variable y only occurs once")

    editing(tmp_path, steps, includeDirs=[str(tmp_path / "lib")], macros={"SMALL": "x < 3"})


def test_hover_tells_of_declarations_types_strata_and_the_last_run(tmp_path, monkeypatch):
    (tmp_path / "towns.dl").write_text(TOWNS.replace("far(x) :- ", "far(x) :-\n    "))
    (tmp_path / "road.facts").write_text("Ulm\tBonn\nBonn\tKiel\n")
    (tmp_path / "other.json").write_text('{"program": "elsewhere.dl", "relations": []}')
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    main(["run", "towns.dl", "-q", "--trace", "run.json"])

    async def steps(editor):
        editor.open("towns.dl")
        await editor.sees("towns.dl")
        road = await editor.hover("towns.dl", 12, 21)
        assert road.startswith("```semi-naive\n.decl road(x: Town, y: Town)\n```\n\nboth ways are two roads\n\n")
        assert re.search(r"2 tuples in the run of \d{4}-\d\d-\d\d \d\d:\d\d \(run\.json\)$", road)
        everything = await editor.hover("towns.dl", 7, 10)
        assert re.search(r"`towns\.all`: stratum 2 of 3, recursive; 3 tuples in the run", everything)
        assert await editor.hover("towns.dl", 12, 11) == "```semi-naive\nx: Town\n```"
        assert await editor.hover("towns.dl", 14, 5) == "```semi-naive\nx: Town\n```"
        assert await editor.hover("towns.dl", 13, 15) == "```semi-naive\n.type Town <: symbol\n```"
        assert await editor.hover("towns.dl", 11, 15) == "```semi-naive\n.comp Reach<T>\n```"
        assert await editor.hover("towns.dl", 2, 5) is None
        editor.type("towns.dl", f"far(.\n{TOWNS}")  # what was known while there was no error still is
        assert await editor.hover("towns.dl", 15, 5) == "```semi-naive\nx: Town\n```"
        assert "2 tuples in the run" in await editor.hover("towns.dl", 13, 21)

    editing(tmp_path, steps)


def test_names_are_found_and_renamed(tmp_path):
    async def steps(editor):
        editor.open("towns.dl", TOWNS)
        await editor.sees("towns.dl")
        assert await editor.definition("towns.dl", 14, 17) == ("towns.dl", 7, 10)
        assert await editor.definition("towns.dl", 14, 12) == ("towns.dl", 11, 6)
        asked = {"context": lsp.ReferenceContext(False), **editor.at("towns.dl", 6, 12)}
        found = await editor.client.text_document_references_async(lsp.ReferenceParams(**asked))
        assert [each.range.start.line + 1 for each in found] == [8, 9, 12]
        # behind the face, which has two units of UTF-16
        assert await editor.rename("towns.dl", 12, 43, "z") == {"towns.dl": [(12, 14, 15), (12, 28, 29), (12, 43, 44)]}
        for name, why in (("x", "there is a variable x already"), ("match", "match is no name"), ("a b", "a b is no name")):
            with pytest.raises(JsonRpcException, match=why):
                await editor.rename("towns.dl", 12, 43, name)
        editor.type("towns.dl", TOWNS.replace("far(x) :-", "far(x :-"))
        assert await editor.definition("towns.dl", 15, 9) == ("towns.dl", 13, 6)  # what can be parsed keeps its names

    editing(tmp_path, steps)


def test_the_outline_and_the_layout(tmp_path):
    untidy = ".decl a( x:number)\r\n.output a\r\na( 1).\r\n"

    async def steps(editor):
        editor.open("towns.dl", TOWNS)
        found = await editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(editor.document("towns.dl")))
        assert [each.name for each in found] == ["Town", "road", "Reach", "towns", "far"]
        assert [each.name for each in found[2].children] == ["step", "all"]
        editor.open("a.dl", untidy)
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        asked = lsp.DocumentFormattingParams(editor.document("a.dl"), options)
        [edit] = await editor.client.text_document_formatting_async(asked)
        assert edit.new_text == formatted(untidy.replace("\r\n", "\n")).replace("\n", "\r\n") != untidy
        editor.type("a.dl", edit.new_text)
        assert await editor.client.text_document_formatting_async(asked) == ()

    editing(tmp_path, steps)


def renamed(text: str, file: str) -> str:
    """The program with a new name for all that it declares, and for its variables."""
    source, _ = parse_all(text, file)
    names = Names(source)
    new = {id(declaration): f"n{number}" for number, declaration in enumerate(dict.fromkeys(names.occurrences.values()))}
    lines = text.split("\n")
    for span, declaration in sorted(names.occurrences.items(), key=lambda found: found[0], reverse=True):
        if span.file == file:
            line = lines[span.line - 1]
            assert line[span.column - 1 : span.end_column - 1] == declaration.name
            lines[span.line - 1] = line[: span.column - 1] + new[id(declaration)] + line[span.end_column - 1 :]
    return "\n".join(lines)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_all_names_of_a_program_can_be_others(path):
    text = read_text(path)
    if "#" in text or ".include" in text:
        pytest.skip("names that macros make, and names in other files, are not renamed here")
    before, after = check_source(parse(text, str(path))), check_source(parse(renamed(text, str(path)), str(path)))
    assert len(after.rules) == len(before.rules) and len(after.relations) == len(before.relations)
    assert not {name.split(".")[0] for name in before.relations} & {name.split(".")[0] for name in after.relations}


def test_without_its_package_the_command_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "semi_naive.editor.server", raising=False)
    status, _, err = run("lsp")
    assert status == 2 and "pip install 'semi-naive[editor]'" in err


def scope(text: str) -> str:
    """What the grammar of the extension calls a text, if one of its patterns takes all of it."""
    grammar = json.loads((EXTENSION / "syntaxes" / "semi-naive.tmLanguage.json").read_text())
    for include in grammar["patterns"]:
        for pattern in grammar["repository"][include["include"].removeprefix("#")]["patterns"]:
            if match := re.compile(pattern.get("match") or pattern["begin"]).match(text):
                return pattern.get("name", "") if match[0].strip() == text.strip() else ""
    return ""


def test_the_extension_knows_every_word_of_the_language():
    named = {word for word in words() if re.fullmatch(r"\w[\w-]*", word)}
    assert len(named) > 40
    known = re.compile(r"storage\.modifier|keyword\.operator\.word|support\.function|constant\.language")
    assert [word for word in sorted(named) if not known.match(scope(word))] == []
    assert {scope(word) for word in words() if not re.match(r"\w", word)} <= {
        "keyword.operator.semi-naive", "keyword.operator.rule.semi-naive", "punctuation.semi-naive",
        "keyword.other.counter.semi-naive", "punctuation.separator.type.semi-naive", "",
    }  # fmt: skip


def test_the_extension_knows_every_directive():
    grammar = (ROOT / "semi_naive" / "language" / "parsing" / "grammar.lark").read_text()
    directives = re.findall(r"/\\(\.\w+)\(", grammar)
    assert len(directives) == 17
    for directive in directives:
        assert scope(f"{directive} ") == "keyword.control.directive.semi-naive"


def test_the_extension_is_whole():
    package = json.loads((EXTENSION / "package.json").read_text())
    [language], [grammar] = package["contributes"]["languages"], package["contributes"]["grammars"]
    assert language["id"] == grammar["language"] and ".dl" in language["extensions"]
    for file in (package["main"], language["configuration"], grammar["path"]):
        assert (EXTENSION / file).exists()
    settings = {name.removeprefix("semi-naive.") for name in package["contributes"]["configuration"]["properties"]}
    client = (EXTENSION / "client.js").read_text()
    assert settings == set(re.findall(r'settings\.get\("(\w+)"\)', client))
    assert json.loads((EXTENSION / "language-configuration.json").read_text())["comments"]["lineComment"] == "//"
