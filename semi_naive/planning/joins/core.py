"""Compile the cyclic core of a body: into one multiway join over tries, or into BiGJoin steps."""

from collections import Counter
from collections.abc import Collection
from typing import Any

from semi_naive.planning.joins.bigjoin import BigJoinCompiler, projected
from semi_naive.planning.joins.body import names_of_variables
from semi_naive.planning.joins.multiway import CyclicCore, is_tested_in_loops
from semi_naive.ra.by_variable.multiway import Multiway
from semi_naive.ra.ir import Atom, Compare, Literal, Not, Var
from semi_naive.ra.rules import steps
from semi_naive.ra.rules.gathering import Hold


def add_core(compiler: Any, first: int, atoms: dict[int, Atom], core: CyclicCore) -> None:
    """Add the steps that join the atoms of a core, given by place. first: the place of the atom that is joined next."""
    if core.apart or core.indexed:
        compiler.choose.undo()  # BigJoinCompiler chooses the atom to start from, and the order of the others
        BigJoinCompiler(compiler, atoms, core).compile(first)
    else:
        _add_multiway(compiler, atoms, core)


def _add_multiway(compiler: Any, atoms: dict[int, Atom], core: CyclicCore) -> None:
    """Add one multiway join of the atoms of a core. Its loops also test the pending literals that they can."""
    compiler.atoms = [(n, atom) for n, atom in compiler.atoms if n not in atoms]
    compiler.choose.together(atoms, compiler.bound, core.reason)
    names = names_of_variables(atoms.values())
    tested = tuple(literal for literal in compiler.pending if _is_tested(compiler, literal, atoms.values()))
    compiler.pending = [literal for literal in compiler.pending if literal not in tested]
    compared = tuple(literal for literal in tested if isinstance(literal, Compare))
    denied = tuple(literal.atom for literal in tested if isinstance(literal, Not))
    live, before = compiler.live(), set(compiler.bound)
    counted = compiler.weighs and not names & before  # no binding to extend: the loops count alone
    live |= names if compiler.every and not counted else set()  # every variable tells bindings of the multiset apart
    needed = live | before | names_of_variables(tested)
    occurrences = Counter(term.name for atom in atoms.values() for term in atom.args if isinstance(term, Var))
    unused = {name for name, times in occurrences.items() if times == 1 and name not in needed and not counted}
    without_unused = tuple(projected(atom, names - unused) for atom in atoms.values())
    parts = tuple(compiler.parts.get(number, "all") for number in atoms)
    binds = tuple(sorted((names - before) & live))
    binary = _binary_steps(compiler, atoms, tested, live) if core.binary_fanout else []
    fanout = core.binary_fanout
    compiler.steps.append(
        Multiway(
            without_unused, parts, compared, binds, frozenset(live), compiler.deal, binary, fanout, denied, counted, core.boxed
        )  # fmt: skip
    )
    compiler.deal, compiler.first_joined = False, True
    compiler.bound |= names
    if compiler.every:  # equal bindings count, so no projection follows
        return
    if compiler.bound - live and binds:
        compiler.project(live)
    compiler.bound &= live


def _is_tested(compiler: Any, literal: Literal, atoms: Collection[Atom]) -> bool:
    """True if the loops of a multiway join of the atoms can test a literal."""
    # a host has not all tuples of a partitioned index
    if isinstance(literal, Not) and compiler.placing(literal.atom.relation, tuple(range(len(literal.atom.args)))):
        return False
    return is_tested_in_loops(literal, atoms, compiler.choose.sizes)


def _binary_steps(compiler: Any, atoms: dict[int, Atom], tested: tuple[Literal, ...], live: set[str]) -> list:
    """Compile the atoms of a core as binary joins, for batches of few bindings; return [] if these would need an exchange.
    tested: the other literals that the core tests; live: the variables that are needed afterwards."""
    parts = {place: compiler.parts[n] for place, n in enumerate(atoms) if n in compiler.parts}
    inner = type(compiler)(compiler.rule, compiler.choose.inner(), compiler.order_for, parts, placing=compiler.placing)
    binary = inner.compile([*atoms.values(), *tested], start=compiler.bound, outside=live)
    return [] if any(isinstance(step, steps.Exchange | Hold) for step in binary) else binary
