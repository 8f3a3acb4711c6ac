"""Properties that are computed on first use and then stored."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

Value = TypeVar("Value")

if TYPE_CHECKING:

    class cached(Generic[Value]):
        def __init__(self, compute: Callable[[Any], Value]): ...
        def __get__(self, instance, owner=None) -> Value: ...
        def __set__(self, instance, value: Value) -> None: ...  # into the instance: the class below has no `__set__`

else:

    class cached:
        """A `functools.cached_property` without its lock: in Python 3.11 a class has one for all instances, so that threads
        wait for each other. Two threads may both compute the value, which is the same.

        >>> class Words:
        ...     size = cached(lambda self: print("counted") or 3)
        >>> words = Words()
        >>> words.size, words.size
        counted
        (3, 3)
        """

        def __init__(self, compute: Callable[[Any], Any]):
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name: str):
            self.name = name

        def __get__(self, instance, owner=None):
            """Compute the value, and store it as an attribute of the instance: later accesses find that attribute."""
            if instance is None:
                return self
            value = vars(instance)[self.name] = self.compute(instance)
            return value


class ProcessLocal(dict):
    """A dictionary of values that are valid only in this process, such as addresses. Its pickle is empty.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(ProcessLocal(words=0x7F00)))
    {}
    """

    def __reduce__(self):
        return ProcessLocal, ()
