"""User-defined functors: check their declarations, and the Python functions given for them."""

import inspect
from collections.abc import Callable, Iterator, Mapping

from semi_naive.host.numbers import quantity
from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.ra.ir import Kind

GIVE = 'functors={{"{0}": …}} in Python, -l MODULE.py or -l LIBRARY on the command line'


def declaration_problems(source: syntax.SourceProgram, env: TypeEnvironment) -> Iterator[Problem]:
    """Report functors that are declared twice or stateful, and undeclared types. Functors of a lattice may be stateful, as
    Soufflé requires it."""
    lattices = {env.declared_as(node.name) for node in source.of(syntax.Lattice)}
    first_named: dict[str, syntax.FunctorDecl] = {}
    for node in source.of(syntax.FunctorDecl):
        if node.name in first_named:
            notes = [("Previous definition", first_named[node.name].span)]
            yield Problem(f"Redefinition of functor {node.name}", node.span, notes=notes)
        first_named.setdefault(node.name, node)
        types = {*map(env.declared_as, (node.result, *(type_ for _, type_ in node.parameters)))}
        if node.stateful and not types & lattices:
            hint = "leave out the word: a function gets strings as strings and records as tuples, and needs no table of either"
            message = f"functor {node.name} is stateful: there is no symbol table or record table of Soufflé's here"
            yield Problem(message, node.span, hint)
        for (name, type_), span in zip(node.parameters, node.spans, strict=False):
            if type_ not in env and env.span(type_) is None:
                yield Problem(f"Undefined type in attribute {name}:{type_}", span)
        if node.result not in env and env.span(node.result) is None:
            yield Problem(f"Undefined type {node.result} in return type", node.spans[-1])


def function_problems(env: TypeEnvironment, functors: Mapping, used: set[str]) -> Iterator[Problem]:
    """Report functors that are used without a function, and functions with another number of arguments."""
    for name, declared in env.functors.items():
        if name not in used:
            continue
        if name not in functors:
            yield Problem(f"There is no function for functor {name}", declared.span, "give it: " + GIVE.format(name))
        elif not callable(function := functors[name]):
            yield Problem(f"{function!r} is given for functor {name}, and is no function", declared.span)
        elif hasattr(function, "typed"):
            yield from _record_problems(env, declared)
        elif (takes := _unfit_parameters(function, len(declared.parameters))) is not None:
            message = f"Functor {name} has {quantity(len(declared.parameters), 'argument')}, its function takes {takes}"
            yield Problem(message, declared.span)


def used_functors(singles: list[Single]) -> set[str]:
    """Return the names of the functors that rules call."""
    called = {node.name[1:] for single in singles for node in single.of(syntax.Functor) if node.name.startswith("@")}
    return called | {node.op[2:] for single in singles for node in single.of(syntax.Aggregate) if node.init is not None}


def _record_problems(env: TypeEnvironment, declared: syntax.FunctorDecl) -> Iterator[Problem]:
    """Report records, which functions of C do not support."""
    for type_, span in zip([*(type_ for _, type_ in declared.parameters), declared.result], declared.spans, strict=True):
        if type_ in env and env.kind(type_) == Kind.RECORD:
            hint = "a function of Python gets and gives them as tuples"
            yield Problem("Functors of a shared library cannot use records or branches", span, hint)


def _unfit_parameters(function: Callable, count: int) -> str | None:
    """Return the parameters of a function as text if it cannot take `count` arguments; None if it can, or may."""
    if isinstance(number := getattr(function, "nin", None), int):  # a ufunc
        return None if number == count else str(number)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C has no signature
        return None
    try:
        signature.bind(*range(count))
    except TypeError:
        return str(signature)
    return None
