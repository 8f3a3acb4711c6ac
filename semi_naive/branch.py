"""Values of algebraic data types in Python: the class `Branch`."""


class Branch(tuple):
    """A value of an algebraic data type: the name of its branch, then its fields.

        >>> tail = Branch("Nil")
        >>> cons = Branch("Cons", 1, tail)
        >>> cons, cons.name, cons.fields
        ($Cons(1, $Nil), 'Cons', (1, $Nil))

    It is a tuple, so it is compared, hashed and matched as one: `case ("Cons", head, tail)`. Records in it are tuples, and nil
    is None. It prints as in a fact file, at any depth; a string that would not be read back is quoted there.
    """

    __slots__ = ()

    def __new__(cls, name: str, *fields):
        if not isinstance(name, str):
            raise TypeError(f"Branch({name!r}, …): expected the name of a branch first, a string")
        return super().__new__(cls, (name.removeprefix("$"), *fields))

    def __getnewargs__(self):
        return tuple(self)

    @property
    def name(self) -> str:
        return self[0]

    @property
    def fields(self) -> tuple:
        return self[1:]

    def __repr__(self) -> str:
        parts: list[str] = []
        waiting: list = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, _Text):
                parts.append(item)
            elif isinstance(item, tuple):
                waiting += reversed(list(_next_pieces(item)))
            else:
                parts.append(_literal(item))
        return "".join(parts)

    __str__ = __repr__


class _Text(str):
    """A piece of printed text, as opposed to a symbol."""

    __slots__ = ()


def _next_pieces(item: tuple):
    """Yield the brackets, commas and fields of a branch or a record."""
    branch = isinstance(item, Branch)
    fields = item[1:] if branch else item
    if branch:
        yield _Text(f"${item[0]}")
    if fields or not branch:
        yield _Text("(" if branch else "[")
        for number, field in enumerate(fields):
            yield from (_Text(", "), field) if number else (field,)
        yield _Text(")" if branch else "]")


def _literal(item) -> str:
    if item is None:
        return "nil"
    return readable(item) if isinstance(item, str) else repr(item)


def readable(text: str, always: bool = False) -> str:
    """Return a symbol as text inside a record or a branch, quoted if that is necessary to read it back, or always.

    >>> print(readable("a b"), readable("a, b"))
    a b "a, b"
    """
    if always or set(text) & set(',])"') or text != text.lstrip():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text
