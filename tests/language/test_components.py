"""Components: what an instance has under which name, and what is wrong with components."""

import pytest

from semi_naive.language.components.components import expand_components
from semi_naive.language.errors import ProgramError
from semi_naive.language.parsing.parse import parse
from semi_naive.language.syntax import RecordDecl, RelationDecl, SubtypeDecl, UnionDecl


class Flat:
    """An expanded program: relations and types by name, the rest as the text says that it should be."""

    def __init__(self, text):
        self.statements = expand_components(parse(text, "p.dl")).statements
        self.relations = {s.name: dict(s.attributes) for s in self.statements if isinstance(s, RelationDecl)}
        self.records = {s.name: dict(s.fields) for s in self.statements if isinstance(s, RecordDecl)}
        self.types = {s.name: s.base for s in self.statements if isinstance(s, SubtypeDecl)}
        self.types |= {s.name: s.members for s in self.statements if isinstance(s, UnionDecl)}

    def says(self, text):
        """Whether its clauses and directives are these, in whatever order."""
        declarations = (RelationDecl, RecordDecl, SubtypeDecl, UnionDecl)
        rest = [statement for statement in self.statements if not isinstance(statement, declarations)]
        return sorted(map(repr, rest)) == sorted(map(repr, parse(text).statements))


def problems(text):
    with pytest.raises(ProgramError) as caught:
        expand_components(parse(text, "p.dl"))
    return caught.value.problems


def test_a_program_without_components_is_left_alone():
    source = parse("A(1).")
    assert expand_components(source) is source


def test_an_instance_has_its_name_before_all_it_declares():
    flat = Flat("""
        .comp Graph {
            .type Node <: symbol
            .type Nodes = [head: Node, tail: Nodes]
            .type Any = Node | Other
            .decl edge(a: Node, b: Nodes)
            .input edge(IO=file)
            edge(x, nil) :- outside(x), y = count : { edge(x, _), !outside(as(x, Node)) }, (edge(y, y); x < y).
        }
        .init g = Graph
        .decl outside(x: g.Node)
        g.edge("a", nil).""")
    assert flat.relations == {"g.edge": {"a": "g.Node", "b": "g.Nodes"}, "outside": {"x": "g.Node"}}
    assert flat.types == {"g.Node": "symbol", "g.Any": ("g.Node", "Other")}
    assert flat.records == {"g.Nodes": {"head": "g.Node", "tail": "g.Nodes"}}
    assert flat.says("""
        .input g.edge(IO=file)
        g.edge(x, nil) :- outside(x), y = count : { g.edge(x, _), !outside(as(x, g.Node)) }, (g.edge(y, y); x < y).
        g.edge("a", nil).""")


def test_instances_share_nothing():
    flat = Flat(".comp C { .decl A(x: number) A(1). } .init a = C .init b = C")
    assert set(flat.relations) == {"a.A", "b.A"} and flat.says("a.A(1). b.A(1).")


def test_parameters_stand_for_types():
    flat = Flat("""
        .comp Pair<S, T> { .type P = [s: S, t: T] .type Sub <: S .type U = S | Sub
            .decl r(s: S, t: T, x: x.X) r(as(0, S), _, _). }
        .comp Wrap<T> { .init pair = Pair<T, symbol> }
        .init w = Wrap<number>""")
    assert flat.records == {"w.pair.P": {"s": "number", "t": "symbol"}}
    assert flat.types == {"w.pair.Sub": "number", "w.pair.U": ("number", "w.pair.Sub")}
    assert flat.relations == {"w.pair.r": {"s": "number", "t": "symbol", "x": "x.X"}}
    assert flat.says("w.pair.r(as(0, number), _, _).")


def test_parameters_stand_for_components():
    flat = Flat("""
        .comp One { .decl r(x: number) r(1). }
        .comp Two<T> { .decl r(x: T) r(2). }
        .comp Inner<Z> { .comp Made<Q> : Base<Q> {} .comp Base<Q> { .init made = Q .output made.r } .init i = Made<Z> }
        .comp Derived<B> : B { r(3). }
        .comp Nested<C> { .comp N { .decl n(x: number) } .init chosen = C }
        .init x = Inner<One>
        .init y = Derived<One>
        .init z = Nested<N>""")
    assert set(flat.relations) == {"x.i.made.r", "y.r", "z.chosen.n"}
    assert flat.says("x.i.made.r(1). .output x.i.made.r y.r(1). y.r(3).")


def test_inheritance_with_overridden_relations():
    flat = Flat("""
        .comp Base<T> {
            .decl p(x: T) overridable
            .decl q(x: T)
            p(x), q(x) :- e(x).
            q(x) :- p(x).
            .output p
        }
        .comp Middle<T> : Base<T> { .decl e(x: T) }
        .comp Other { .decl o() }
        .comp Sub<T> : Middle<T>, Other { .override p p(x) :- e(x), o(). }
        .init a = Middle<number>
        .init b = Sub<symbol>""")
    assert flat.relations["b.p"] == {"x": "symbol"} and set(flat.relations) >= {"a.e", "b.e", "b.o"}
    assert flat.says("""
        a.p(x) :- a.e(x). a.q(x) :- a.e(x). a.q(x) :- a.p(x). .output a.p
        b.q(x) :- b.e(x). b.q(x) :- b.p(x). b.p(x) :- b.e(x), b.o(). .output b.p""")


def test_inherited_instances_are_the_instances_own():
    flat = Flat("""
        .comp Part { .decl r(x: number) }
        .comp Base { .init part = Part part.r(1). }
        .comp Sub : Base { part.r(2). }
        .init s = Sub""")
    assert flat.says("s.part.r(1). s.part.r(2).")


def test_names_are_looked_up_from_the_inside_out():
    flat = Flat("""
        .decl r(x: number)
        .decl s(x: number)
        .decl t(x: number)
        .comp Inner { .decl r(x: number) r(x) :- r(x), s(x), t(x). s(1). t(1). }
        .comp Outer { .decl s(x: number) .init i = Inner s(x) :- i.r(x), r(x). }
        .init o = Outer""")
    assert flat.says("""
        o.i.r(x) :- o.i.r(x), o.s(x), t(x).
        o.s(1).
        t(1).
        o.s(x) :- o.i.r(x), r(x).""")


def test_a_component_is_found_in_the_one_around_it():
    flat = Flat("""
        .comp A { .decl r(x: number) }
        .comp Out { .comp A { .decl s(x: number) } .comp In { .init a = A } .init i = In }
        .comp Sub : Out { .init again = A }
        .init o = Out .init p = Sub .init q = A""")
    assert set(flat.relations) == {"o.i.a.s", "p.i.a.s", "p.again.s", "q.r"}


def test_places_stay_those_of_the_component():
    statements = Flat(".comp C {\n .decl A(x: number)\n A(1).\n}\n.init c = C").statements
    assert [statement.span.line for statement in statements] == [2, 3]


def test_only_what_is_instantiated_counts():
    assert Flat(".comp C<T> { .decl A(x: T) .init i = T }\nB(1).").says("B(1).")


@pytest.mark.parametrize(
    "line, message, text",
    [
        (1, "Referencing undefined component C", ".init c = C"),
        (2, "Referencing undefined component B", ".decl x(x: number)\n.comp C : B {\n}"),
        (2, "Referencing undefined component B", ".comp C {\n .init b = B }"),
        (2, "Invalid number of type parameters for component C", ".comp C<S, T> {}\n.init c = C<number>"),
        (2, "Invalid number of type parameters for component C", ".comp C {}\n.comp D : C<number> {}"),
        (1, "Invalid cycle in inheritance for component A", ".comp A : B {}\n.comp B : A {}"),
        (1, "Invalid cycle in inheritance for component A", ".comp A : A {}"),
        (2, "Override of non-overridable relation r in component B", ".comp A { .decl r() }\n.comp B : A { .override r }"),
        (1, "Override of non-inherited relation r in component A", ".comp A { .decl r() overridable .override r }"),
        (2, "Name clash on component A", ".decl A()\n.comp A {}"),
        (2, "Name clash on component A", ".comp A {}\n.comp A {}"),
        (2, "Name clash on instantiation A", ".comp A {}\n.init A = A"),
        (1, ".override outside of a component", ".override r"),
        (3, "Redefinition of relation r", ".comp A { .decl r() }\n.comp B : A {\n .decl r(x: number) }\n.init b = B"),
        (2, "Redefinition of type t", ".comp A { .type t = number\n.type t = symbol }\n.init a = A .init b = A"),
        (2, "Redefinition of relation i.r", ".comp A {\n .decl r() } .comp B { .init i = A .init i = A }\n.init b = B"),
        (2, "Redefinition I/O operation r", ".comp A { .decl r() .input r\n.input r }\n.init a = A"),
        (1, "Component T not found", ".comp A<T> { .init x = T }\n.init a = A<Nowhere>"),
        (1, "Invalid number of type parameters for component T", ".comp A<T> { .init x = T }\n.comp B<X> {}\n.init a = A<B>"),
        (2, "Component instantiation limit reached", ".comp A {\n .init x = A }\n.init a = A"),
    ],
)
def test_errors(line, message, text):
    found = problems(text)
    first = found[0]
    assert first.message.startswith(message) and first.span.line == line
    assert all(problem.hint for problem in found)
    assert len({(problem.message, problem.span) for problem in found}) == len(found)


def test_two_outputs_of_a_relation_are_fine():
    assert Flat(".comp A { .decl r() .output r .output r(IO=stdout) } .init a = A").says(".output a.r .output a.r(IO=stdout)")


def test_two_components_that_instantiate_each_other():
    [problem] = problems(".comp A { .init x = B .init y = B }\n.comp B { .init z = A }\n.init a = A")
    assert problem.message.startswith("Component instantiation limit reached")
