"""Constraints of readers: rules that read a relation with constants or parameters compute only the tuples that these ask for
(`planning.rewriting.magic`).

    alice(y) :- knows(7, y).                alice(y) :- knows@by_x(7, y).       knows@by_x.parameters(7).
    bob(y) :- knows($who, y).     becomes   bob(who, y) :- bob.parameters(who), knows@by_x(who, y).
                                            knows@by_x(x, y) :- knows@by_x.parameters(x), knows(x, y).

The rules of `knows` are synthesised anew for the values of x that have readers; all such readers share `knows@by_x`. Where
another relation has these values, as few of it (`guests`), they are synthesised anew for this reader alone:

    met(y) :- guests(x), knows(x, y).       becomes   met(y) :- guests(x), met.knows@bf(x, y).

Where all tuples of `knows` would be computed, or another reader has it evaluated, the readers share `knows` itself, the trunk
(Göbel 2019, "Optimising Distributed Dataflows in Interactive Environments", 10).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from semi_naive.planning import rewrite
from semi_naive.planning.maintaining.names import is_changes_only
from semi_naive.planning.rewriting.passes import Compiled
from semi_naive.planning.strata import strata
from semi_naive.ra.ir import Atom, Const, Program, Relation, Rule, Var
from semi_naive.session.registered.checking import MAGIC
from semi_naive.session.registered.rules import Registered, Synthesis

MAX_RULES = 200  # rules that are compiled for one part of a relation at most, in some 0.2 s
# A part is replaced by the whole relation if it is computed for more values than MIN_WIDE_VALUES and than this share of those
# that there are. A closure of 600 vertices was followed in half the time whole, and with a right-linear rule, which asks for
# all values, in a seventh (40 changes); of few facts nothing can be told, as many more may come.
MAX_ASKED_SHARE = 0.5
MIN_WIDE_VALUES = 100
# The share of values up to which the values of other atoms are expected to be few. For 1, 5, 10 and 25 % of 600 vertices in a
# chain, 40 changes took 0.5, 1.2, 1.9 and 1.8 times the processor time of the whole closure; to evaluate it took 3 to 7 %.
MAX_JOINED_SHARE = 0.05


State = tuple[Registered | None, bool]  # of a relation: its registered rules, and whether it has a definition
Asked = dict[int, Const | int]  # the values that an atom asks for, by place: constants, or places of parameters


@dataclass(frozen=True)
class Definition:
    """The rules of one relation, as a checked program, and the relations that they read."""

    program: Program
    reads: frozenset[str]


class Demand:
    """The definitions of a session's relations that are not evaluated, and the parts of them that readers ask for."""

    def __init__(self, session: Any, registered: Mapping[str, Registered]):
        """registered: the registered rules by relation, a dictionary that grows."""
        self._session, self._registered = session, registered
        self.parts: dict[str, Registered] = {}  # by name, the relations with those tuples of another one that are asked for
        self._origins: dict[str, str] = {}  # by canonical form, the rules that were evaluated first
        self._compiled_with: dict[str, dict[str, State]] = {}  # for each part, the relations with which it was compiled

    def definition(self, name: str) -> Definition | None:
        """Return the rules of a relation that is not evaluated, if they can be evaluated on demand; otherwise None. They cannot
        if it is a relation of the program that users may change, that has a reduction, or whose program recurs in rounds."""
        rules, is_defined = self._state(name)
        if not is_defined:
            return None
        if rules is not None:
            defining = [rule for rule in rules.checked.rules if rule.head.relation not in rules.reads]
            return Definition(replace(rules.checked, rules=defining), rules.reads)
        checked = self._session.program.checked
        defining = self._rules_of_program[name]
        nodes = (node for rule in defining for node in rewrite.walk(rule.body))
        reads = frozenset(node.relation for node in nodes if isinstance(node, Atom))
        relations = {relation: checked.relations[relation] for relation in reads | {name}}
        sums = {relation: head for relation, head in checked.sums.items() if relation == name}
        return Definition(Program(checked.types, relations, defining, sums=sums), reads)

    def _state(self, name: str) -> State:
        """Return (the registered rules of a relation, if any; True if it has a definition)."""
        if (rules := self._registered.get(name)) is not None:
            is_shared = rules.users > 0 if rules.share is None else rules.share
            return rules, not (is_shared or rules.parameters or rules.inline_statements)
        session, checked = self._session, self._session.program.checked
        is_evaluated = name not in checked.relations or name in session.upkeep.relations.tables
        return None, not (is_evaluated or checked.loops or not checked.relations[name].plain or name in session.changeable)

    @cached_property
    def _rules_of_program(self) -> dict[str, list[Rule]]:
        """The rules of the session's program by the relation of their head."""
        rules: dict[str, list[Rule]] = defaultdict(list)
        for rule in self._session.program.checked.rules:
            rules[rule.head.relation].append(rule)
        return rules

    def synthesis(self, rules: Registered, wide: Collection[str] = ()) -> Synthesis:
        """Return the form in which rules are evaluated now. A relation is replaced by its parts if all atoms that read it have
        constants or parameters, and all of these parts can be computed alone. One that is joined with few tuples is evaluated
        for these rules alone, as far as those ask for it. wide: relations that are read whole."""
        if rules.name in self.parts and rules.synthesis:  # `_part` has made it
            return rules.synthesis
        if rules.text and not is_changes_only(rules.name) and (twin := self._twin(rules)):
            return twin
        atoms = [node for node in rewrite.walk(rules.checked.rules) if isinstance(node, Atom) and node.relation in rules.reads]
        places = {f"${name}": place for place, name in enumerate(rules.parameters)}
        used: dict[Atom, tuple[Registered, Asked]] = {}  # for each atom, the part that it reads, and what it asks for
        for name in sorted(read for read in rules.reads if read not in wide and self.definition(read)):
            asked_by_atom = {atom: _asked_by(atom, places) for atom in atoms if atom.relation == name}
            parts = {bound: self._part(name, bound) for bound in map(tuple, asked_by_atom.values()) if bound}
            reading = {atom: (part, asked) for atom, asked in asked_by_atom.items() if (part := parts.get(tuple(asked)))}
            if len(reading) == len(asked_by_atom):  # otherwise an atom reads the whole relation, so all do
                used |= reading
        used |= self._values_given(atoms, places)
        self.parts |= {part.name: part for part, _ in used.values() if part.name not in self._registered}
        reader, uses = self._reading_parts(rules, used)
        wanted = frozenset(each for each in reader.reads if each not in wide and self._is_joined_with_few(reader, each))
        alone = self._narrowed(_ordered(reader, wanted), wanted, uses)
        return alone or Synthesis(reader.compiled(), tuple(sorted(uses, key=repr)))

    def _is_joined_with_few(self, rules: Registered, name: str) -> bool:
        """True if rules join a relation that is not evaluated with atoms of others, of which some are expected to have at most
        MAX_JOINED_SHARE of the values that the relation may have."""
        if not self.definition(name):
            return False
        atoms_of_rules = [[each for each in rule.body if isinstance(each, Atom)] for rule in rules.checked.rules]
        database, tables = self._session.upkeep.run.database, self._session.upkeep.relations.tables
        bases = {name for name in self._with_definitions(rules, set(rules.reads) - {name}).reads if name in tables}
        arities = self._session.upkeep.program.relations
        possible = max((database.distinct(each, place) for each in bases for place in range(arities[each].arity)), default=0)
        for atoms in (each for each in atoms_of_rules if any(atom.relation == name for atom in each)):
            variables = {arg for atom in atoms if atom.relation == name for arg in atom.args if isinstance(arg, Var)}
            others = (atom for atom in atoms if atom.relation != name and variables.intersection(atom.args))
            expected = [each for each in (self._expected_values(atom, variables) for atom in others) if each is not None]
            if not expected or min(expected) > MAX_JOINED_SHARE * possible:
                return False
        return True

    def _expected_values(self, atom: Atom, variables: set[Var]) -> float | None:
        """Estimate the number of values that an atom has for one of some variables; None if its relation is not evaluated yet.
        A part of a relation, which constants ask for, counts as one value."""
        upkeep, place = self._session.upkeep, next(place for place, arg in enumerate(atom.args) if arg in variables)
        if atom.relation not in upkeep.relations.tables:
            return 1 if atom.relation in self.parts else None
        distinct, fixed = upkeep.run.database.distinct, [number for number, arg in enumerate(atom.args) if _is_fixed(arg)]
        selected = upkeep.relations.contents(atom.relation).count
        for number in fixed:
            selected /= max(1.0, distinct(atom.relation, number))
        return min(selected, distinct(atom.relation, place))

    def _twin(self, rules: Registered) -> Synthesis | None:
        """Return the form of rules as a copy of evaluated ones with the same canonical form, if there are any. With parameters
        the copy has the values that are asked for."""
        origin = self._registered.get(self._origins.get(rules.canonical, rules.name))
        is_evaluated = origin is not None and origin.users and not origin.form.twin  # by its own rules, not as a copy
        # The forms differ if other rules have been registered under the name since.
        if origin is None or origin is rules or not is_evaluated or origin.canonical != rules.canonical:
            self._origins[rules.canonical] = rules.name
            return None
        variables = tuple(Var(f"column.{place}", type_.kind) for place, (_, type_) in enumerate(rules.relation.attributes))
        given = Atom(rules.parameter_relation, variables[: len(rules.parameters)])
        body = *((given,) if rules.parameters else ()), Atom(origin.name, variables)
        relations = {each: rules.checked.relations[each] for each in (rules.name, *rules.inputs)} | {
            origin.name: origin.relation
        }
        program = Program(rules.checked.types, relations, [Rule(Atom(rules.name, variables), body)])
        copy = replace(rules, reads=frozenset([origin.name]), check=lambda: program)
        return Synthesis(copy.compiled(), ((origin.name, tuple(range(len(rules.parameters)))),), twin=origin.name)

    def forget(self, rules: Registered) -> None:
        """Note that rules are not evaluated any more."""
        if rules.text and self._origins.get(rules.canonical) == rules.name:
            del self._origins[rules.canonical]

    def _values_given(self, atoms: Iterable[Atom], places: Mapping[str, int]) -> dict[Atom, tuple[Registered, Asked]]:
        """Return the atoms that read rules with parameters, each with these rules, and the values that it gives. places: those
        of the reader's own parameters by their variables."""
        given = {}
        for atom in atoms:
            if (read := self._registered.get(atom.relation)) and read.parameters:
                values = _asked_by(atom, places)
                given[atom] = read, {place: values[place] for place in range(len(read.parameters))}
        return given

    def _reading_parts(
        self, rules: Registered, used: Mapping[Atom, tuple[Registered, Asked]]
    ) -> tuple[Registered, set[tuple[str, tuple]]]:
        """Return rules in which some atoms read parts of relations, and their uses (`Synthesis`). used: for each of these
        atoms, the part, and what it asks for."""

        def read_part(node):
            return replace(node, relation=used[node][0].name) if isinstance(node, Atom) and node in used else node

        whole = rules.reads - {atom.relation for atom in used}  # the rest is read in part
        uses = {(name, ()) for name in whole} | {(part.name, tuple(asked.values())) for part, asked in used.values()}
        parts = {part.name: part.relation for part, _ in used.values()}
        program = rules.checked
        relations = {name: kept for name, kept in program.relations.items() if name in whole or name not in rules.reads} | parts
        program = replace(program, relations=relations, rules=[rewrite.transform(rule, read_part) for rule in program.rules])
        return replace(rules, reads=whole | parts.keys(), check=lambda: program) if parts else rules, uses

    def _part(self, name: str, bound: tuple[int, ...]) -> Registered | None:
        """Return the part of a relation with the values that readers ask for in some attributes; None if all tuples of the
        relation would be computed, or if more than MAX_RULES would be compiled. bound: the places of the attributes."""
        registered, session = self._registered.get(name), self._session
        relation = registered.relation if registered else session.declared[name]
        attributes = [relation.attributes[place] for place in bound]
        part = f"{name}@by_{','.join(attribute for attribute, _ in attributes)}"
        if self._is_current(part):
            return self.parts[part]
        variables = [Var(f"{attribute}.{place}", type_.kind) for place, (attribute, type_) in enumerate(relation.attributes)]
        asked = Atom(f"{part}.parameters", tuple(variables[place] for place in bound))
        rule = Rule(Atom(part, tuple(variables)), (asked, Atom(name, tuple(variables))))
        relations = [Relation(part, relation.attributes), Relation(asked.relation, tuple(attributes)), relation]
        types = registered.checked.types if registered else session.program.checked.types
        program = Program(types, {relation.name: relation for relation in relations}, [rule])
        names = tuple(attribute for attribute, _ in attributes)
        rules = Registered(part, "", names, frozenset([name]), frozenset(), lambda: program)
        if form := self._narrowed(rules, rules.reads, ()):
            rules.synthesis = replace(form, compiled=_without_copy(form.compiled, part), alone=())
            self._compiled_with[part] = {
                each: self._state(each) for each in self._with_definitions(rules, set()).checked.relations
            }
            return rules
        return None

    def _is_current(self, part: str) -> bool:
        """True if a part has users, or would be compiled in the same way again."""
        compiled_with = self._compiled_with.get(part, {})
        if part not in self.parts:
            return False
        return self.parts[part].users > 0 or all(self._state(name) == state for name, state in compiled_with.items())

    def _narrowed(self, rules: Registered, wanted: frozenset[str], uses: Collection[tuple[str, tuple]]) -> Synthesis | None:
        """Synthesise rules together with those of relations that they read, `wanted`, and of what these read, directly or not,
        so that only the needed tuples are computed. A relation of which all tuples would be computed is read instead, as it can
        be shared. Return None if no wanted one remains, or if more than MAX_RULES would be compiled. uses: of the rules."""
        shared, places = set(rules.reads - wanted), {f"${name}": place for place, name in enumerate(rules.parameters)}
        while wanted - shared:
            extended = self._with_definitions(rules, shared)
            if len(extended.checked.rules) > MAX_RULES or not all(map(self._can_be_evaluated, extended.reads)):
                return None
            compiled = extended.compiled()
            names = {f"{rules.name}.{name}": name for name in extended.checked.relations if name != rules.name}
            # A relation of which only some tuples are computed has another name: see `planning.rewriting.magic`.
            computed_whole = {names[name] for name in names.keys() & compiled.program.relations.keys()}
            if computed_whole <= shared:
                nodes = rewrite.walk(extended.checked.rules)
                atoms = [node for node in nodes if isinstance(node, Atom) and node.relation in extended.reads]
                given = {(read.name, tuple(values.values())) for read, values in self._values_given(atoms, places).values()}
                given |= {use for use in uses if use[0] in self.parts}
                whole = {(name, ()) for name in extended.reads - {name for name, _ in given}}
                return Synthesis(compiled, tuple(sorted(whole | given, key=repr)), tuple(sorted(wanted - shared)))
            shared |= computed_whole
        return None

    def explain(self, rules: Registered) -> str:
        """Format how rules read relations that are evaluated for them: whole or in part, and why."""
        form = self._current(rules)
        lines = [f"  {name}: for values that other atoms have only, evaluated for {rules.name} alone" for name in form.alone]
        for name, asked in form.uses:
            part, other = self.parts.get(name), self._registered.get(name)
            if read := part or asked and other:
                values = ((f"${rules.parameters[value]}" if isinstance(value, int) else value) for value in asked)
                condition = ", ".join(f"{key} = {value}" for key, value in zip(read.parameters, values, strict=True))
                shared = f"{name}, which is shared by all that read it so" if part else "one dataflow for all values"
                lines.append(f"  {min(part.reads) if part else name}: for {condition} only, in {shared}")
            elif other and name == form.twin:
                lines.append(f"  {name}: its rules are the same but for names and order, so both are one dataflow")
            elif other:
                chosen = f", as it is registered with share={other.share}" if other.share is not None else ""
                lines.append(f"  {name}: as a whole, which is shared by all that read it so{chosen}")
        return "\n".join([f"{rules.name} reads", *lines, "", ""]) if lines else ""

    def with_definitions(self, rules: Registered) -> Registered:
        """Return rules together with the rules of each relation of which they read a part."""
        synthesis = self._current(rules)
        parts = [self.parts[name] for name, _ in synthesis.uses if name in self.parts]
        whole = {name for part in parts for name, _ in part.form.uses}
        shared = whole | {name for name, _ in synthesis.uses}
        return self._with_definitions(rules, shared) if parts or synthesis.alone else rules

    def _current(self, rules: Registered) -> Synthesis:
        """Return the form in which rules are evaluated, or would be now."""
        return rules.synthesis if rules.users and rules.synthesis else self.synthesis(rules)

    def wide(self, rules: Registered) -> set[str]:
        """Return the relations of which rules use parts, or evaluate tuples alone, but which are expected to have fewer tuples
        than these, or not many more: the parts are computed for a large share of all values."""
        parts = [self.parts[name] for name, _ in rules.form.uses if name in self.parts]
        reading = [*((part, min(part.reads)) for part in parts), *((rules, name) for name in rules.form.alone if rules.strata)]
        return {name for part, name in reading if self._is_wide(part, name)}

    def _is_wide(self, part: Registered, whole: str) -> bool:
        """True if the rules of a part, or rules that evaluate tuples alone, ask for more than MAX_ASKED_SHARE of the possible
        values: those in the columns that the asked values are joined with. whole: the relation of the tuples."""
        upkeep, registered = self._session.upkeep, self._registered.get(whole)
        reads = {name for name, _ in part.form.uses}
        possible: dict[str, float] = defaultdict(float)  # the numbers of values that may be asked for
        for rule in part.form.compiled.program.rules:
            atoms = [atom for atom in rule.body if isinstance(atom, Atom)]
            # Relations of asked values have such names: see `planning.rewriting.magic`.
            for demand in (atom for atom in atoms if atom.relation.startswith(f"{part.name}.{whole}@")):
                places = [(atom.relation, place) for atom in atoms if atom.relation in reads
                          for place, arg in enumerate(atom.args) if arg in demand.args]  # fmt: skip
                values = max((upkeep.run.database.distinct(*place) for place in places), default=0)
                possible[demand.relation] = max(values, possible[demand.relation])
        for demand_name, values in possible.items():
            asked = upkeep.relations.contents(demand_name).count
            if asked > max(MIN_WIDE_VALUES, MAX_ASKED_SHARE * values) and values:  # 0: the possible values are not known
                return registered is None or registered.share is None  # a share that the user has chosen is kept
        return False

    def _can_be_evaluated(self, name: str) -> bool:
        """True for registered rules, system relations, and the relations that a stratum of the session derives."""
        upkeep = self._session.upkeep
        return (
            name in self._registered or name in upkeep.relations.dependents.homes or name in self._session.registry.system_rules
        )

    def _with_definitions(self, rules: Registered, shared: set[str]) -> Registered:
        """Return rules together with those of all relations that they read, directly or not, except for `shared`."""
        program, reads, unvisited = rules.checked, set(), set(rules.reads)
        while unvisited:
            name = min(unvisited)
            unvisited.remove(name)
            reads.add(name)
            if name not in shared and (definition := self.definition(name)):
                defined = definition.program
                program = replace(
                    program, types=program.types | defined.types, relations=program.relations | defined.relations,
                    rules=[*program.rules, *defined.rules], sums=program.sums | defined.sums,
                )  # fmt: skip
                unvisited |= definition.reads - reads
        derived = {rule.head.relation for rule in program.rules}
        program = replace(program, pragmas=program.pragmas | {MAGIC.key: MAGIC.value})
        return replace(rules, reads=frozenset(reads - derived), check=lambda: program)


def _without_copy(compiled: Compiled, part: str) -> Compiled:
    """Let the relation that magic sets compute for a part take its place, if the part is a copy of it. It has all tuples with
    the asked values, and readers take no others, though the rules may ask for more values."""
    program = compiled.program
    own = [rule for rule in program.rules if rule.head.relation == part]
    copied = [atom.relation for rule in own for atom in rule.body if isinstance(atom, Atom) and atom.args == rule.head.args]
    if len(own) != 1 or len(own[0].body) != 2 or len(copied) != 1 or not copied[0].startswith(f"{part}."):
        return compiled

    def renamed(node):
        return replace(node, relation=part) if isinstance(node, Atom) and node.relation == copied[0] else node

    relations = {name: relation for name, relation in program.relations.items() if name != part}
    relations[part] = replace(relations.pop(copied[0]), name=part)
    rules = [rewrite.transform(rule, renamed) for rule in program.rules if rule is not own[0]]
    program = replace(program, relations=relations, rules=rules)
    return Compiled(program, strata(program))


def _asked_by(atom: Atom, parameters: Mapping[str, int]) -> Asked:
    """Return the values that an atom asks for. parameters: the place of each by its variable."""
    asked = {place: parameters.get(arg.name) if isinstance(arg, Var) else arg for place, arg in enumerate(atom.args)}
    return {place: value for place, value in asked.items() if isinstance(value, Const | int)}


def _is_fixed(arg: Any) -> bool:
    """True for a constant, and for a parameter."""
    return isinstance(arg, Const) or isinstance(arg, Var) and arg.name.startswith("$")


def _ordered(rules: Registered, wanted: Collection[str]) -> Registered:
    """Return rules whose atoms of the relations `wanted` come last in each body, each after others that have a variable in
    common with it: magic sets know what stands before an atom."""

    def ordered(rule: Rule) -> Rule:
        last = [each for each in rule.body if isinstance(each, Atom) and each.relation in wanted]
        body = [each for each in rule.body if each not in last]
        while last:
            bound = {arg for each in body if isinstance(each, Atom) for arg in each.args if isinstance(arg, Var)}
            last.sort(key=lambda atom: bound.isdisjoint(atom.args))
            body.append(last.pop(0))
        return replace(rule, body=tuple(body))

    program = rules.checked
    return replace(rules, check=lambda: replace(program, rules=list(map(ordered, program.rules)))) if wanted else rules
