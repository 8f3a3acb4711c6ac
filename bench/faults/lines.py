"""An exception at a line: what Ctrl-C does at a moment by chance, at a moment that is chosen."""

import sys
from collections.abc import Callable
from pathlib import Path

import semi_naive

ROOT = str(Path(semi_naive.__file__).parents[1])
OTHERS = f"{ROOT}/bench", f"{ROOT}/tests"


class Line:
    """While the block runs, KeyboardInterrupt comes before the nth line of ours that this thread executes; `number=None`: the
    lines are counted. `wanted`: whether the lines of a file count. `place`: where the exception came."""

    def __init__(self, number: int | None, wanted: Callable[[str], bool] = lambda path: True):
        self.number, self.wanted, self.executed = number, wanted, 0
        self.place = ""

    def __enter__(self) -> "Line":
        self.before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_) -> None:
        sys.settrace(self.before)

    def _called(self, frame, event, argument):
        path = frame.f_code.co_filename
        ours = path.startswith(ROOT) and not path.startswith(OTHERS)
        return self._executes if ours and self.wanted(path) else None

    def _executes(self, frame, event, argument):
        if event == "line":
            self.executed += 1
            if self.executed == self.number:
                self.place = f"{frame.f_code.co_filename.removeprefix(ROOT)}:{frame.f_lineno}"
                sys.settrace(self.before)
                raise KeyboardInterrupt(self.place)
        return self._executes


def of_sessions(path: str) -> bool:
    """True for the files of sessions, and of what they stand on."""
    return "/session/" in path or path.endswith(("/interrupts.py", "/alone.py", "/manifest.py", "/private.py"))
