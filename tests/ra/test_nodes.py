"""Nodes are frozen dataclasses in all but how they are made."""

import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace

import pytest

from semi_naive.ra.ir import Kind, Var
from semi_naive.ra.nodes import node


def made(decorator):
    """Two classes of a base with a named field, of which one has no field to compare."""

    @decorator
    class Base:
        """A base."""

        place: int = field(default=7, kw_only=True, compare=False, repr=False)

    @decorator
    class Named(Base):
        """With fields of all sorts."""

        name: str
        parts: list = field(default_factory=list)
        note: str = field(default="", compare=False)

        def __str__(self):
            return self.name

    return Base, Named


@pytest.mark.parametrize("decorator", [node, dataclass(frozen=True)])
def test_a_node_is_what_a_frozen_dataclass_is(decorator):
    base, named = made(decorator)
    one, other = named("a", note="1", place=3), named("a", note="2")
    assert one == other and one != named("b") and one != named("a", [1]) and one != ("a", []) and base() == base(place=1)
    assert hash(base()) == hash(base(place=2)) and hash(named("a", ())) == hash(named("a", (), "other"))
    assert repr(one).endswith("Named(name='a', parts=[], note='1')") and str(one) == "a"
    assert one.parts is not other.parts and (one.place, other.place) == (3, 7)
    assert replace(one, name="c") == named("c") and replace(one, name="c").place == 3
    assert [each.name for each in fields(named)] == ["place", "name", "parts", "note"]
    assert asdict(other) == {"place": 7, "name": "a", "parts": [], "note": "2"}
    match one:
        case named(name, parts):
            assert (name, parts) == ("a", [])
    for change in (lambda: setattr(one, "name", "b"), lambda: delattr(one, "name")):
        with pytest.raises(FrozenInstanceError):
            change()
    for wrong in (lambda: named(), lambda: named("a", [], "", 3), lambda: named("a", place=1, other=2)):
        with pytest.raises(TypeError):
            wrong()


def test_nodes_are_pickled():
    assert pickle.loads(pickle.dumps(Var("x", Kind.NUMBER))) == Var("x", Kind.NUMBER)
