"""The report of a run in a notebook: a link to its file, or the page itself in a frame."""

import os
from html import escape

FRAME_HEIGHT_PIXELS = 640  # pixels of the frame


class Page(str):
    """An HTML page as a string. A shell shows its size and its file; a notebook shows a link to the file, or the page if there
    is no file.
    """

    __slots__ = ("path",)

    path: str | None

    @classmethod
    def of(cls, text: str, path=None) -> "Page":
        """Return a page. path: the file to which it has been written, if any."""
        page = cls(text)
        page.path = None if path is None else os.fspath(path)
        return page

    def _summary(self) -> str:
        where = "" if self.path is None else f", written to {self.path}"
        return f"report of {max(1, len(self.encode()) // 1000):,} kB{where}"

    def __repr__(self) -> str:
        return f"<{self._summary()}>"

    def _repr_html_(self) -> str:
        if self.path is not None:
            link = f'<a href="{escape(self.path)}" style="color:inherit">{escape(self.path)}</a>'
            return f"<p>The {escape(self._summary().removesuffix(self.path))}{link}</p>"
        style = f"width:100%;height:{FRAME_HEIGHT_PIXELS}px;border:1px solid"
        return f'<iframe srcdoc="{escape(self)}" title="The report of a run" sandbox style="{style}"></iframe>'
