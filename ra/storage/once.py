"""Values that the processes of a host share: the first that needs one makes it, while the others wait."""

import contextlib
import logging
import os
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from semi_naive.host import private
from semi_naive.host.exclusive import exclusive
from semi_naive.ra.storage.missing import RunMissing

log = logging.getLogger("semi_naive")

Used = TypeVar("Used")


def make_once(path: str, make: Callable[[], Any], use: Callable[[Any], Used] = lambda made: made) -> Used:
    """Return the result of `use` on the value of `make`, pickled in a file: the first process of the host to ask makes it, the
    others read it.

    Something small, such as handles of files that `make` has written, and that `use` opens. What is damaged is made again: the
    pickle, or a file of which `use` says RunMissing. The caller answers for the directory: what is there is believed.
    """
    try:
        return use(_load_or_make(path, make))
    except RunMissing as missing:
        log.info("made again: %s", missing)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return use(_load_or_make(path, make))


def _load_or_make(path: str, make: Callable[[], Any]):
    data = private.load(path)
    if data is None:
        private.folder(os.path.dirname(path))
        with exclusive(f"{path}.lock"):
            data = private.load(path)
            if data is None:
                data = pickle.dumps(make())
                private.save_checked(path, data)
    return pickle.loads(data)
