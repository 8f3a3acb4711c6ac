"""Properties that are computed when they are first asked for, and kept."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached
else:

    class cached:
        """As `functools.cached_property`, which in Python 3.11 has one lock for a class, so that threads wait for each
        other. Here two of them may both compute it, and the same comes out.

        >>> class Words:
        ...     size = cached(lambda self: print("counted") or 3)
        >>> words = Words()
        >>> words.size, words.size
        counted
        (3, 3)
        """

        def __init__(self, made: Callable[[Any], Any]):
            self.made, self.__doc__ = made, made.__doc__

        def __set_name__(self, owner, name: str):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = vars(instance)[self.name] = self.made(instance)
            return value


class ProcessLocal(dict):
    """What has a meaning in this process alone, as addresses have: another process gets an empty one.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(Here(words=0x7F00)))
    {}
    """

    def __reduce__(self):
        return ProcessLocal, ()
