"""`semi-naive lsp`: the language server, which editors start as a process."""


def run_lsp() -> None:
    """Serve until the editor ends the session. Raises ValueError if a package is missing."""
    try:
        from semi_naive.editor.server import serve_editor
    except ImportError as missing:
        message = f"semi-naive lsp needs the package {missing.name}, which is not installed"
        raise ValueError(f"{message}: pip install 'semi-naive[editor]'") from None
    serve_editor()
