"""User-defined functors: the functions behind a program's `.functor` declarations.

    .functor f(x: number, y: symbol): symbol           Program(text, functors={"f": function})
    out(@f(x, y)) :- in(x, y).

A Python function is called once for each distinct tuple of arguments in a block. A function that is `vectorised`, or a numpy
ufunc, is called with whole columns. One compiled by numba is called in a compiled loop, if all its values are numbers. A
function must return the same for the same arguments; the number of calls, their order and their processes are unspecified.
"""

import functools
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import BUILT_IN, HOW_TO_READ, abbreviated, type_description
from semi_naive.io.values.fields import bits_of_values
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Kind, Type
from semi_naive.ra.values.distinct import distinct_rows
from semi_naive.ra.values.kinds import as_bits
from semi_naive.ra.values.values import Values
from semi_naive.running.results.python_values import DTYPES, nested_values

MAX_RETRIED_ROWS = 1000  # rows up to which a failing vectorised function is called again row by row, to find the one that fails


class Vectorised:
    """A function of columns; see `vectorised`."""

    def __init__(self, function: Callable):
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *columns):
        return self.function(*columns)

    def __repr__(self) -> str:
        return f"vectorised({self.function!r})"


def vectorised(function: Callable) -> Vectorised:
    """Mark a function that takes numpy arrays of n values and returns an array, or a list, of n values.

        @vectorised
        def f(x, y):
            return x * 2 + y

    Numbers are int64, unsigned uint64, floats float64; symbols, records and branches are arrays of Python objects. The arrays
    are read-only. Values may repeat in them, and n may differ from call to call. A million numbers take a millisecond more than
    the function itself.
    """
    return Vectorised(function)


@dataclass(eq=False)
class UserFunctor:
    """A declared functor with its function, called by the evaluator with columns of arguments.

    params, result: the declared types; types: all types of the program, by name. A call raises EvaluationError, with the
    arguments, if the function raises an exception or returns a value that is not of the result's type.
    """

    name: str
    function: Callable
    params: tuple[Type, ...]
    result: Type
    types: dict[str, Type]

    def __call__(self, columns: list[np.ndarray], size: int, values: Values) -> np.ndarray:
        """Return the results as 64 bits each (size,). columns: the arguments as 64 bits; values: the symbols and records of the
        run."""
        if not size:
            return np.empty(0, np.int64)
        if not self.params:
            return np.repeat(self._by_row([], 1, values), size)
        columns = [np.ascontiguousarray(column) for column in columns]
        if _takes_columns(self.function):
            return self._by_column(columns, values)
        if _is_compiled(self.function) and all(type_.kind in DTYPES for type_ in (*self.params, self.result)):
            return self._by_compiled_loop(columns, size, values)
        rows, inverse = distinct_rows(columns)
        return self._by_row(rows, len(rows[0]), values)[inverse]

    def _argument_lists(self, columns: list[np.ndarray], values: Values) -> list[list]:
        """Return each column of arguments as a list of Python objects."""
        types = BUILT_IN | self.types
        return [list(nested_values(each, type_, types, values)) for each, type_ in zip(columns, self.params, strict=True)]

    def _by_row(self, columns: list[np.ndarray], size: int, values: Values) -> np.ndarray:
        """Return the results, as 64 bits each, of a Python function that is called row by row."""
        arguments = self._argument_lists(columns, values)
        results: list[Any] = []
        try:
            results.extend(map(self.function, *arguments) if arguments else [self.function()])
        except Exception as error:
            raise self._error(error, [column[len(results)] for column in arguments]) from error
        if len(results) < size and arguments:  # the function has raised StopIteration, at which `map` ends
            raise self._error(StopIteration(), [column[len(results)] for column in arguments])
        return self._result_bits(results, lambda row: [column[row] for column in arguments], values)

    def _result_bits(self, results: Iterable, arguments: Callable[[int], list], values: Values) -> np.ndarray:
        """Return Python results as 64 bits each. arguments: returns the arguments of a row, for errors."""

        def fault(row: int, wrong) -> EvaluationError:
            advice = f" ({wrong.hint})" if wrong.hint and wrong.hint != HOW_TO_READ else ""
            call = self._call(arguments(row))
            return EvaluationError(f"the result of {call}: {wrong}{advice}; expected {type_description(self.result)}")

        return bits_of_values(list(results), self.result, self.types, values, fault)

    def _by_column(self, columns: list[np.ndarray], values: Values) -> np.ndarray:
        """Return the results, as 64 bits each, of a vectorised function. Columns of symbols or records are reduced to distinct
        rows first."""
        inverse = None
        if not all(type_.kind in DTYPES for type_ in self.params):
            columns, inverse = distinct_rows(columns)
        arguments = [self._argument_array(column, type_, values) for column, type_ in zip(columns, self.params, strict=True)]
        try:
            results = self.function(*arguments)
        except Exception as error:
            raise self._error_of_columns(error, arguments) from error
        column = self._result_column(results, arguments, values)
        return column if inverse is None else column[inverse]

    def _error_of_columns(self, error: Exception, arguments: list[np.ndarray]) -> EvaluationError:
        """Return the error of a vectorised function: with the arguments of the first row, among MAX_RETRIED_ROWS, for which it
        fails alone, if there is one. arguments: the columns of the failed call."""
        for row in range(min(len(arguments[0]), MAX_RETRIED_ROWS)):
            try:
                self.function(*(column[row : row + 1] for column in arguments))
            except Exception as error_of_row:
                return self._error(error_of_row, [column[row] for column in arguments])
        return EvaluationError(
            f"@{self.name}, of {quantity(len(arguments[0]), 'tuple')} of arguments: {type(error).__name__}: {error}"
        )

    def _argument_array(self, column: np.ndarray, type_: Type, values: Values) -> np.ndarray:
        """Return a column of arguments as a read-only array of numbers or objects."""
        if type_.kind in DTYPES:
            array = column.view(DTYPES[type_.kind])
        else:
            array = np.empty(len(column), object)
            for row, value in enumerate(nested_values(column, type_, BUILT_IN | self.types, values)):
                array[row] = value  # one by one: numpy would take tuples for rows
        array.flags.writeable = False
        return array

    def _result_column(self, returned, arguments: list[np.ndarray], values: Values) -> np.ndarray:
        """Return what a vectorised function returned as 64 bits each. Raises EvaluationError if it is no array or list of the
        arguments' length. arguments: their columns."""
        size, wanted = len(arguments[0]), DTYPES.get(self.result.kind)
        is_list = isinstance(returned, np.ndarray | list | tuple)
        if not is_list or len(returned) != size:
            found = quantity(len(returned), "value") if is_list else f"a {type(returned).__name__}"
            hint = "a vectorised functor gives an array as long as those that it gets"
            raise EvaluationError(f"@{self.name} gives {found} for {quantity(size, 'tuple')} of arguments: {hint}")
        if wanted is not None and isinstance(returned, np.ndarray) and _all_of_kind(returned, wanted):
            return as_bits(returned.astype(wanted, copy=False))
        rows = returned.tolist() if isinstance(returned, np.ndarray) else returned
        return self._result_bits(rows, lambda row: [column[row] for column in arguments], values)

    def _by_compiled_loop(self, columns: list[np.ndarray], size: int, values: Values) -> np.ndarray:
        """Return the results, as 64 bits each, of a function compiled by numba, called in a compiled loop."""
        arguments = [column.view(DTYPES[type_.kind]) for column, type_ in zip(columns, self.params, strict=True)]
        done = np.zeros(1, np.int64)
        try:
            first = self.function(*(column[0] for column in arguments))
            # numba gives all results one type, so the first shows whether it fits
            self._result_bits([first], lambda row: [column[row] for column in arguments], values)
            results = np.empty(size, self._compiled_result_type)
            self._loop(results, done, *arguments)
        except EvaluationError:
            raise
        except Exception as error:
            raise self._error(error, [column[done[0]] for column in arguments]) from error
        return self._result_column(results, arguments, values)

    def folded(self, initial: np.ndarray, group: np.ndarray, column: np.ndarray, values: Values) -> np.ndarray:
        """Fold the values of groups by the functor, a binary one. Return the result of each group.

        initial: a value for each group; group: the number of the group of each value, ascending; column: the values.
        """
        if _takes_columns(self.function):
            return self._folded_by_rounds(initial, group, column, values)
        results, given = self._argument_lists([np.ascontiguousarray(initial), np.ascontiguousarray(column)], values)
        last = {}  # the arguments of each group's last call, for errors
        for number, value in zip(group.tolist(), given, strict=True):
            last[number] = results[number], value
            try:
                results[number] = self.function(*last[number])
            except Exception as error:
                raise self._error(error, [*last[number]]) from error
        return self._result_bits(results, lambda number: [*last[number]], values)

    def _folded_by_rounds(self, initial: np.ndarray, group: np.ndarray, column: np.ndarray, values: Values) -> np.ndarray:
        """Fold the first value of every group, then the second, and so on: one call of the vectorised function a round."""
        first = np.flatnonzero(np.diff(group, prepend=-1))  # the row of each group's first value
        nth = np.arange(len(group)) - np.repeat(first, np.diff(first, append=len(group)))
        results, order = initial.copy(), np.argsort(nth, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(nth))[:-1]):  # the nth row of each group that has so many
            arguments = [results[group[rows]], np.ascontiguousarray(column[rows])]
            results[group[rows]] = self._by_column(arguments, values)
        return results

    @property
    def _compiled_result_type(self):
        """The numpy type of the compiled function's results, which may be unsigned where numbers are declared."""
        if self.result.kind == Kind.FLOAT:
            return np.float64
        dispatcher: Any = self.function  # numba's
        result_types = [signature.return_type for signature in dispatcher.nopython_signatures]
        return np.int64 if any(getattr(each, "signed", True) for each in result_types) else np.uint64

    @functools.cached_property
    def _loop(self) -> Callable:
        """A compiled `loop(results, done, *columns)` that calls the compiled function for each row. done: an array that gets
        the number of the current row, for errors."""
        import numba

        names = [f"column{number}" for number in range(len(self.params))]
        arguments = ", ".join(f"{name}[row]" for name in names)
        text = f"""
def loop(results, done, {", ".join(names)}):
    for row in range(len(results)):
        done[0] = row
        results[row] = function({arguments})
"""
        namespace: dict[str, Any] = {"function": self.function}
        exec(compile(text, "<functor>", "exec"), namespace)
        return numba.njit(namespace["loop"])

    def _call(self, arguments: list) -> str:
        written = [f'"{each}"' if isinstance(each, str) else abbreviated(each) for each in map(_python_value, arguments)]
        return f"@{self.name}({', '.join(written)})"

    def _error(self, error: Exception, arguments: list) -> EvaluationError:
        return EvaluationError(f"{self._call(arguments)}: {type(error).__name__}: {error}")

    def __reduce__(self):
        return _unpickled, (self.name, self._pickled, self.params, self.result, self.types)

    @functools.cached_property
    def _pickled(self) -> bytes:
        """The function in pickled form for Spark's workers: by value, unless its module is installed there."""
        from pyspark import cloudpickle

        module = sys.modules.get(getattr(self.function, "__module__", None) or "")
        by_value = module is not None and module.__name__ != "__main__" and not _installed(module)
        try:
            if by_value:
                cloudpickle.register_pickle_by_value(module)
            return cloudpickle.dumps(_PickledFunction.of(self.function))
        except Exception as error:
            message = f"functor {self.name} cannot be sent to Spark's workers: {type(error).__name__}: {error}"
            hint = "objects that the function refers to must be picklable: open files and connections in the function itself"
            raise BadInput(message, hint=hint) from error
        finally:
            if by_value:
                cloudpickle.unregister_pickle_by_value(module)


def _unpickled(name: str, pickled: bytes, params: tuple[Type, ...], result: Type, types: dict[str, Type]) -> UserFunctor:
    """Restore a functor in a worker. pickled: its function, as `UserFunctor._pickled` has it."""
    import pickle

    function = pickle.loads(pickled)
    return UserFunctor(name, function.compiled() if isinstance(function, _PickledFunction) else function, params, result, types)


@dataclass
class _PickledFunction:
    """A numba function in pickled form; it is compiled again on arrival."""

    function: Callable
    options: dict

    @classmethod
    def of(cls, function: Any):
        """Return a function in picklable form: as a `_PickledFunction` if numba has made it."""
        if _is_compiled(function):
            return cls(function.py_func, dict(function.targetoptions))
        if isinstance(function, np.vectorize):  # a new one, as one that has been called has a ufunc, which cannot be pickled
            return np.vectorize(function.pyfunc, otypes=function.otypes)
        return function

    def compiled(self) -> Callable:
        """Compile the function again."""
        import numba

        options = {name: value for name, value in self.options.items() if name not in ("cache", "boundscheck", "nopython")}
        return numba.njit(**options)(self.function)


def _python_value(value):
    return value.item() if isinstance(value, np.generic) else value


def _takes_columns(function) -> bool:
    """True if a function is called with whole columns; numba's `DUFunc` is recognized by name, without loading numba."""
    return isinstance(function, Vectorised | np.ufunc | np.vectorize) or type(function).__name__ == "DUFunc"


def _is_compiled(function) -> bool:
    """True if numba compiles the function; does not load numba."""
    return type(function).__module__.startswith("numba.") and hasattr(function, "py_func") and not _takes_columns(function)


def _all_of_kind(array: np.ndarray, wanted) -> bool:
    """True if an array has one dimension, and all of its values can be cast to a numpy type without loss of range."""
    if array.ndim != 1 or array.dtype.kind not in ("iu" if wanted is not np.float64 else "iuf"):
        return False
    if wanted is np.int64:
        return array.dtype != np.uint64 or not array.size or int(array.max()) < 1 << 63
    return wanted is np.float64 or array.dtype.kind == "u" or not array.size or int(array.min()) >= 0


def _installed(module) -> bool:
    """True if every host has the module: an installed package, or Python itself."""
    path = getattr(module, "__file__", None)
    if path is None or module.__name__.partition(".")[0] == "semi_naive":
        return True
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(path.startswith(f"{folder}/") for folder in folders)
