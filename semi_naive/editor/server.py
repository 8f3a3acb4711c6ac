"""`semi-naive lsp`: the language server on standard input and output, by pygls.

Texts are checked after a pause in typing. Columns are counted in the editor's units; in the rest of the engine they count from
1, in characters.
"""

import asyncio
import re
from collections.abc import Callable

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from semi_naive import __version__
from semi_naive.editor.hover import hover
from semi_naive.editor.names import Declaration
from semi_naive.editor.programs import Programs, Reading
from semi_naive.language.errors import WARNING, Problem, Span
from semi_naive.language.parsing.layout import formatted
from semi_naive.language.parsing.parse import words
from semi_naive.language.syntax import Component

TYPING_PAUSE_SECONDS = 0.2  # seconds without a keystroke after which a text is checked
NAME = re.compile(r"[?a-zA-Z][_?a-zA-Z0-9]*|_[_?a-zA-Z0-9]+")
KINDS = {
    "relation": lsp.SymbolKind.Struct, "type": lsp.SymbolKind.Class, "branch": lsp.SymbolKind.EnumMember,
    "functor": lsp.SymbolKind.Function, "component": lsp.SymbolKind.Module, "instance": lsp.SymbolKind.Object,
}  # fmt: skip


class EditorServer(LanguageServer):
    """The language server of one editor."""

    def __init__(self):
        super().__init__("semi-naive", __version__)
        self.uris: dict[str, str] = {}  # of the open documents, by path
        self.published: dict[str, set[str]] = {}  # by program, the files with published problems
        self.programs = Programs()
        self.checking = asyncio.Lock()  # held during a check, which runs in a thread

    def configure(self, options: dict | None) -> None:
        """Open the workspace with the editor's settings."""
        options = options or {}
        reading = {
            "include_dirs": options.get("includeDirs") or [], "defines": options.get("macros") or {},
            "legacy": bool(options.get("legacy")),
        }  # fmt: skip
        self.programs = Programs(self.workspace.root_path, reading)

    def path(self, uri: str) -> str:
        """Return the engine's path of a document; of a document that was never saved, its URI."""
        return (uris.to_fs_path(uri) if uri.startswith("file:") else None) or uri

    def uri(self, path: str) -> str:
        """Return the URI of a file, as the editor knows it if the document is open."""
        return self.uris.get(path) or uris.from_fs_path(path) or path

    def take_texts(self, uri: str) -> str:
        """Copy the texts of all open documents to `programs`. Return the path of the document with a URI."""
        documents = self.workspace.text_documents
        self.uris = {self.path(known): known for known in documents}
        self.programs.unsaved = {self.path(known): document.source for known, document in documents.items()}
        return self.path(uri)

    # -- places

    @property
    def codec(self) -> PositionCodec:
        return self.workspace.position_codec

    def span_range(self, span: Span, texts: dict[str, str]) -> lsp.Range:
        """Return a span as the editor counts: from 0, in its units. texts: by path."""
        lines = texts.get(span.file, "").split("\n")
        begin = lsp.Position(span.line - 1, span.column - 1)
        end = lsp.Position(span.end_line - 1, span.end_column - 1)
        return self.codec.range_to_client_units(lines, lsp.Range(begin, end))

    def location(self, span: Span, texts: dict[str, str]) -> lsp.Location:
        return lsp.Location(self.uri(span.file), self.span_range(span, texts))

    def name_at(self, params) -> tuple[Reading, tuple[Span, Declaration] | None]:
        """Return (the program of a document, the name at a position in it as (span, declaration), None if there is none)."""
        path = self.take_texts(params.text_document.uri)
        reading = self.programs.read(path)
        lines = reading.texts.get(path, "").split("\n")
        place = self.codec.position_from_client_units(lines, params.position)
        return reading, reading.names.at(path, place.line + 1, place.character + 1)

    # -- problems

    async def check_later(self, uri: str, wait: float) -> None:
        """Check a document's program after `wait` seconds, and publish the problems, unless its text has changed meanwhile."""
        path = self.take_texts(uri)
        text = self.programs.unsaved.get(path)
        await asyncio.sleep(wait)
        if self.programs.unsaved.get(path) != text:
            return
        async with self.checking:
            problems, files = await asyncio.to_thread(self.programs.check, path)
        if self.programs.unsaved.get(path) == text:
            self.publish_problems(self.programs.root(path), problems, files | {path})

    def publish_problems(self, root: str, problems: list[Problem], files: set[str]) -> None:
        """Publish the problems of a program file by file, and clear those of files that no longer have any."""
        texts = self.programs.read(root).texts
        found: dict[str, list[lsp.Diagnostic]] = {file: [] for file in files | self.published.get(root, set())}
        for problem in problems:
            found.setdefault(problem.span.file, []).append(self.diagnostic(problem, texts))
        for file, diagnostics in found.items():
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(self.uri(file), diagnostics))
        self.published[root] = {file for file, diagnostics in found.items() if diagnostics}

    def diagnostic(self, problem: Problem, texts: dict[str, str]) -> lsp.Diagnostic:
        warning = problem.severity == WARNING
        notes = [lsp.DiagnosticRelatedInformation(self.location(span, texts), message) for message, span in problem.notes]
        return lsp.Diagnostic(
            range=self.span_range(problem.span, texts),
            message=f"{problem.message}\n{problem.hint}" if problem.hint else problem.message,
            severity=lsp.DiagnosticSeverity.Warning if warning else lsp.DiagnosticSeverity.Error,
            source="semi-naive",
            related_information=notes or None,
        )


def make_server() -> EditorServer:
    """Return a server with all its handlers."""
    server = EditorServer()
    _documents(server)
    _queries(server)
    _changes(server)
    return server


def _documents(server: EditorServer) -> None:
    """Register the handlers of opened, changed, saved and closed documents."""

    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams):
        server.configure(params.initialization_options)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams):
        await server.check_later(params.text_document.uri, wait=0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams):
        await server.check_later(params.text_document.uri, TYPING_PAUSE_SECONDS)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams):
        server.programs.forget()
        await server.check_later(params.text_document.uri, wait=0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams):
        path = server.take_texts(params.text_document.uri)
        root = server.programs.root(path)
        if all(server.programs.root(other) != root for other in server.programs.unsaved):  # none of its files is open
            server.publish_problems(root, [], {path})


def _at_name(server: EditorServer, feature: str, *options) -> Callable:
    """Return a decorator that registers a function of (parameters, program, span, declaration) as the handler of a request
    about the name at a position. If there is no name, the answer is None."""

    def register(answer):
        @server.feature(feature, *options)
        def handler(params):
            reading, found = server.name_at(params)
            return None if found is None else answer(params, reading, *found)

    return register


def _queries(server: EditorServer) -> None:
    """Register the handlers of hover, definition, references and symbols."""

    @_at_name(server, lsp.TEXT_DOCUMENT_HOVER)
    def hovered(params, reading: Reading, span: Span, declaration: Declaration) -> lsp.Hover:
        text = hover(declaration, reading, server.programs.checked.get(reading.root))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), server.span_range(span, reading.texts))

    @_at_name(server, lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params, reading: Reading, span: Span, declaration: Declaration) -> lsp.Location:
        return server.location(declaration.span, reading.texts)

    @_at_name(server, lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams, reading: Reading, span: Span, declaration: Declaration) -> list[lsp.Location]:
        spans = reading.names.of(declaration)
        wanted = [each for each in spans if params.context.include_declaration or each != declaration.span]
        return [server.location(each, reading.texts) for each in wanted]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        path = server.take_texts(params.text_document.uri)
        reading = server.programs.read(path)

        def symbol(declaration: Declaration) -> lsp.DocumentSymbol:
            name = server.span_range(declaration.span, reading.texts)
            whole = server.span_range(declaration.node.span, reading.texts)
            inner = reading.names.declared_in(declaration.node) if isinstance(declaration.node, Component) else []
            return lsp.DocumentSymbol(
                declaration.name, KINDS[declaration.kind], whole, name, children=[*map(symbol, inner)] or None
            )

        return [symbol(each) for each in reading.names.declared_in(None) if each.span.file == path]


def _changes(server: EditorServer) -> None:
    """Register the handlers of formatting and renaming."""

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        text = server.workspace.get_text_document(params.text_document.uri).source
        layout = formatted(text.replace("\r\n", "\n"))
        layout = layout.replace("\n", "\r\n") if "\r\n" in text else layout
        end = lsp.Position(text.count("\n") + 1, 0)
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), end), layout)] if layout != text else []

    @_at_name(server, lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(params, reading: Reading, span: Span, declaration: Declaration) -> lsp.PrepareRenamePlaceholder:
        return lsp.PrepareRenamePlaceholder(server.span_range(span, reading.texts), declaration.name)

    @_at_name(server, lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams, reading: Reading, span: Span, declaration: Declaration) -> lsp.WorkspaceEdit:
        name = params.new_name
        if not NAME.fullmatch(name) or name in words():
            raise JsonRpcInvalidParams(f"{name} is no name: write letters, digits and _, and no word of the language")
        if name != declaration.name and reading.names.rivals(declaration, name):
            raise JsonRpcInvalidParams(f"there is a {declaration.kind} {name} already: take another name")
        changes: dict[str, list[lsp.TextEdit]] = {}
        for place in reading.names.of(declaration):
            edit = lsp.TextEdit(server.span_range(place, reading.texts), name)
            changes.setdefault(server.uri(place.file), []).append(edit)
        return lsp.WorkspaceEdit(changes=changes)
