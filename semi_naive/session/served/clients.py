"""The clients of a server and their permissions: the file of `semi-naive serve --token FILE`.

The file is one token, whose client may do everything:

    3f1c9a…

or TOML with a table for each client, which may do what its table says and nothing else:

    [ann]
    token = "3f1c9a…"
    parameters = {town = ["Ulm", "Bonn"], most = "any"}     # values that it may give to parameters of registered rules
    reads = ["edge"]        # relations that it may read whole, and that its rules may read; "any" for all
    writes = ["edge"]       # relations whose facts it may change
    rules = true            # it may register rules, of names that begin with ann__

    [operator]
    token = "77d0b2…"
    owner = true            # it may do everything

A client is a tenant: from a relation with parameters it gets only the tuples for the values that it may give.
"""

import hmac
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import sha256
from typing import Any

from semi_naive.io.errors import BadInput
from semi_naive.language import syntax
from semi_naive.language.parsing.parse import parse
from semi_naive.sandbox import NoFiles
from semi_naive.session.registered.rules import Registered

ANY = "any"
CLIENT_SEPARATOR = "__"  # between a client's name and the rest of the name of rules that it registers
MIN_TOKEN_CHARACTERS = 16  # shorter tokens could be guessed while the server runs
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # the form of a token, by RFC 6750
CLIENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", re.ASCII)
KEYS = {"token": str, "owner": bool, "parameters": dict, "reads": list, "writes": list, "rules": bool}
CONVERTIBLE_TYPES = {"number", "unsigned", "float"}  # types that `as` may name in a client's rules
TOKEN_HINT = "make one with: openssl rand -hex 32"


class NotAllowed(PermissionError):
    """A request that the client may not make. The message says what it may do."""


@dataclass(frozen=True)
class Client:
    """The permissions of a client ("it" in the methods). registry: that of the session.
    reads, writes: the relations that it may read or change; None for all. parameters: the values that it may give to parameters
    of registered rules, by the name of the parameter; None for any value. rules: it may register rules."""

    name: str = ""
    owner: bool = True
    parameters: Mapping[str, tuple | None] = field(default_factory=dict)
    reads: frozenset[str] | None = None
    writes: frozenset[str] | None = None
    rules: bool = True

    @property
    def prefix(self) -> str:
        """The prefix for the names of its durable subscriptions in the session."""
        return "" if self.owner else f"{self.name}/"

    @property
    def viewer(self) -> str | None:
        """The client whose subscriptions it sees, which is itself; None for all clients."""
        return None if self.owner else self.name

    def owns(self, rule: str) -> bool:
        """True if the name of registered rules is one of its own."""
        return self.owner or rule.startswith(self.name + CLIENT_SEPARATOR)

    def may_read_all(self, name: str, registry: Any) -> bool:
        """True if it may read all tuples of a relation."""
        if self.owner:
            return True
        permitted = self.reads is None or name in self.reads
        if name not in registry.rules:
            return permitted and name not in registry.system_rules
        rules = registry.rules[name]
        if rules.parameters or self._is_of_another_client(name):  # with parameters, it is read in part: see `may_read_part`
            return False
        return self._may_read_inputs(rules, registry) if self.owns(name) else permitted

    def _is_of_another_client(self, rule: str) -> bool:
        """True if registered rules have a name that another client owns."""
        return CLIENT_SEPARATOR in rule and not self.owns(rule)

    def _may_read_inputs(self, rules: Registered, registry: Any) -> bool:
        """True if it may read all tuples of the relations that rules read."""
        return all(self.may_read_all(read, registry) for read in rules.reads | rules.inlines)

    def may_read_part(self, name: str, registry: Any) -> bool:
        """True if it may read a relation, or at least its tuples for the parameter values that it may give."""
        rules = registry.rules.get(name)
        if self.owner or rules is None or not rules.parameters:
            return self.may_read_all(name, registry)
        if self._is_of_another_client(name) or self.owns(name) and not self._may_read_inputs(rules, registry):
            return False
        return set(rules.parameters) <= self.parameters.keys()

    # -- checks, which raise NotAllowed

    def check_may_read(self, name: str, registry: Any) -> None:
        """Check that it may read a relation or a part of it. A client may always read its own rows of sys.subscription."""
        if not self.may_read_part(name, registry) and not (name == "sys.subscription" and name in registry.system_rules):
            known = [*registry.readable, *registry.rules]
            may = sorted(other for other in dict.fromkeys(known) if self.may_read_part(other, registry))
            raise NotAllowed(f"{self.name} may not read {name}: it may read {_names_or_nothing(may)}")

    def check_value(self, parameter: str, text: str, parse: Callable[[str], Any]) -> None:
        """Check that it may give a value to a parameter. parse: parses a text as a value of the parameter's type."""
        allowed = None if self.owner else self.parameters.get(parameter, ())  # None: any value; (): no value
        if allowed is not None and not any(_is_equal_value(text, value, parse) for value in allowed):
            may = _names_or_nothing(list(map(repr, allowed)))
            raise NotAllowed(f"{self.name} may not give {parameter}={text!r}: it may give {may}")

    def check_owner(self, subject: str) -> None:
        """Check that it is an owner. subject: a plural noun for what it asks for, as in the error's message."""
        if not self.owner:
            raise NotAllowed(f"{self.name} may not ask for {subject}, which show facts and rules of all clients: an owner may")

    def check_may_write(self, name: str) -> None:
        """Check that it may change the facts of a relation."""
        if self.writes is not None and name not in self.writes:
            may = _names_or_nothing(sorted(self.writes))
            raise NotAllowed(f"{self.name} may not change facts of {name}: it may change those of {may}")

    def check_may_register(self, rule: str) -> None:
        """Check that it may register and unregister rules of a name."""
        if not self.rules:
            raise NotAllowed(f"{self.name} may not register rules: its table has no rules = true")
        if not self.owns(rule):
            raise NotAllowed(f"{rule} is no name for rules of {self.name}: these begin with {self.name}{CLIENT_SEPARATOR}")

    def check_rules(self, rules: Registered, registry: Any) -> None:
        """Check that its rules read only relations that it may read, and do not convert numbers to symbols or records (`as`):
        such a value could belong to another client."""
        if self.owner:
            return
        for name in sorted(rules.reads | rules.inlines):
            self.check_may_read(name, registry)
            if name in registry.rules and registry.rules[name].parameters and not self.owns(name):
                raise NotAllowed(f"rules of {self.name} may not read {name}, which has parameters: register its rules anew")
        for node in _syntax_nodes(parse(rules.text, sandbox=NoFiles()).statements):
            if isinstance(node, syntax.As) and node.type not in CONVERTIBLE_TYPES:
                may = ", ".join(sorted(CONVERTIBLE_TYPES))
                raise NotAllowed(f"as(…, {node.type}) at line {node.span.line}: rules of {self.name} may have `as` for {may}")


def _is_equal_value(text: str, allowed: Any, parse: Callable[[str], Any]) -> bool:
    """True if both are the same value of a parameter's type, which `parse` parses; False if one is not of the type."""
    try:
        return parse(text) == parse(str(allowed))
    except ValueError:
        return False


def _syntax_nodes(node: Any) -> Iterable:
    """Yield a syntax node, or the nodes of a list, and all their descendants."""
    unvisited = [node]
    while unvisited:
        node = unvisited.pop()
        if isinstance(node, list | tuple):
            unvisited += node
        elif is_dataclass(node):
            yield node
            unvisited += [getattr(node, field_.name) for field_ in fields(node)]


def _names_or_nothing(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


# -- the file


class Clients:
    """The clients of a server, with digests of their tokens. If there are none, every request is one of the owner."""

    def __init__(self, known: Iterable[tuple[str, Client]] = ()):
        self.known = [(_digest(token), client) for token, client in known]

    def of(self, header: str) -> Client | None:
        """Return the client that an Authorization header names by its token; None if the token is unknown. It is compared with
        all tokens, each in constant time.

        >>> clients = Clients([("0123456789abcdef", Client("ann", owner=False))])
        >>> clients.of("Bearer 0123456789abcdef").name, clients.of("Bearer 0123456789abcdeg"), clients.of("")
        ('ann', None, None)
        """
        if not self.known:
            return Client()
        scheme, _, token = header.strip().partition(" ")
        given_digest = _digest(token.strip())
        matching = [client for digest, client in self.known if hmac.compare_digest(digest, given_digest)]
        return matching[0] if matching and scheme.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="surrogateescape")).digest()


def read_clients(path: str) -> Clients:
    """Read a token file. Raises BadInput if it is not valid, or if other users may read, write or execute it."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the token file cannot be read: {getattr(error, 'strerror', error)}", path, hint=TOKEN_HINT) from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"other users may use the token file (its mode is {stat.S_IMODE(mode):04o})"
        raise BadInput(message, path, hint=f"chmod 600 {path}")
    if len(text.split()) == 1:
        return Clients([(_check_token(text.strip(), path), Client())])
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"it is neither one token nor TOML: {error}", path, hint="docs/sessions.md shows both forms") from None
    known = [_parse_client(path, name, table) for name, table in tables.items()]
    if not known:
        raise BadInput("the token file is empty", path, hint=TOKEN_HINT)
    if len({token for token, _ in known}) < len(known):
        raise BadInput("two clients have the same token", path, hint=TOKEN_HINT)
    return Clients(known)


def _check_token(token: Any, path: str, name: str = "") -> str:
    """Return a token. Raises BadInput unless it is a bearer token of sufficient length. name: its client, for errors."""
    of = f" of {name}" if name else ""
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        raise BadInput(f"the token{of} is no bearer token: expected letters, digits and . _ ~ + / -", path, hint=TOKEN_HINT)
    if len(token) < MIN_TOKEN_CHARACTERS:
        message = f"the token{of} has {len(token)} characters: expected {MIN_TOKEN_CHARACTERS} at least"
        raise BadInput(message, path, hint=TOKEN_HINT)
    return token


def _parse_client(path: str, name: str, table: Any) -> tuple[str, Client]:
    """Convert a table of the file to (token, client). Raises BadInput if it is not valid."""

    def invalid(message: str) -> BadInput:
        return BadInput(f"client {name}: {message}", path, hint="docs/sessions.md shows what a table may have")

    if not isinstance(table, dict):
        raise BadInput(f"{name} is no table of a client", path, hint=f"begin it with [{name}]")
    if not CLIENT_NAME.fullmatch(name):
        raise invalid("expected a name of letters and digits, with single _ between them")
    for key, value in table.items():
        if key not in KEYS:
            raise invalid(f"there is no key {key}: expected {', '.join(KEYS)}")
        if not isinstance(value, KEYS[key]) and not (value == ANY and KEYS[key] is list):
            raise invalid(f"{key} is {value!r}: expected {_expected_of_key(key)}")
    if table.get("owner") and table.keys() - {"token", "owner"}:
        raise invalid("an owner may do everything: leave its other keys out")
    allowed = table.get("parameters", {})
    parameters = {parameter: _allowed_values(parameter, values, invalid) for parameter, values in allowed.items()}
    reads, writes = (_allowed_relations(key, table.get(key, []), invalid) for key in ("reads", "writes"))
    token = _check_token(table.get("token"), path, name)
    if table.get("owner"):
        return token, Client(name)
    rules = table.get("rules", False)
    return token, Client(name, owner=False, parameters=parameters, reads=reads, writes=writes, rules=rules)


def _expected_of_key(key: str) -> str:
    """Return a description of the values that a key of a client's table may have, for errors."""
    kinds = {str: "a text", bool: "true or false", dict: 'a table, as {town = ["Ulm"]}', list: f'a list of names, or "{ANY}"'}
    return kinds[KEYS[key]]


def _allowed_relations(key: str, value: Any, invalid: Callable[[str], BadInput]) -> frozenset[str] | None:
    """Return the relations that the permission `key` lists; None for all. invalid: returns the error to raise."""
    if value != ANY and not all(isinstance(name, str) for name in value):
        raise invalid(f"{key} is {value!r}: expected {_expected_of_key(key)}")
    return None if value == ANY else frozenset(value)


def _allowed_values(name: str, value: Any, invalid: Callable[[str], BadInput]) -> tuple | None:
    """Return the values that a client may give to the parameter `name`; None for any. invalid: returns the error to raise."""
    if value == ANY:
        return None
    if not isinstance(value, list) or not all(type(allowed) in (str, int, float) for allowed in value):
        raise invalid(f'the parameter {name} has {value!r}: expected a list of texts and numbers, or "{ANY}"')
    return tuple(value)
