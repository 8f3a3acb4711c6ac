"""A data source of Spark in Python: streams the changes of a relation of a `semi-naive serve`.

    spark.dataSource.register(ChangesSource)
    changes = spark.readStream.format("semi-naive").options(url="http://127.0.0.1:8642", relation="path").load()

The rows have the relation's columns and `diff`, 1 for an inserted tuple, -1 for a deleted one. The offset of the stream is the
epoch. A batch is the difference of two epochs, so reading it again gives the same rows, as long as the server retains both
epochs (`--retain`).
"""

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

TIMEOUT_SECONDS = 60.0  # for an answer of the server
CONVERTERS = {"unsigned": Decimal, "float": float}  # from the values of JSON to those that Spark expects, by kind
TYPES = {"number": "bigint", "unsigned": "decimal(20, 0)", "float": "double", "symbol": "string"}


class ChangesSource(DataSource):
    """The data source. Options: `url` of the server; `relation`; `since`, the epoch after which the stream begins, by default
    all current tuples come first; `token`, if the server requires one; `parameters` of registered rules, as
    `town=Ulm&most=3`.
    """

    @classmethod
    def name(cls) -> str:
        return "semi-naive"

    def schema(self) -> str:
        attributes = ", ".join(f"`{name}` {TYPES[kind]}" for name, kind in self._attributes())
        return f"{attributes}, diff int"

    def simpleStreamReader(self, schema) -> "ChangesReader":
        """Return the reader of the stream, as Spark's interface requires."""
        kinds = [kind for _, kind in self._attributes()]
        since, parameters = int(self.options.get("since", -1)), self.options.get("parameters", "")
        return ChangesReader(self._get(), self._option("relation"), kinds, since, parameters)

    def _attributes(self) -> list[tuple[str, str]]:
        """Return the (name, kind) of the relation's attributes, as the server describes them."""
        relation, get = self._option("relation"), self._get()
        schemas = {entry["name"]: entry for entry in get("/relations")["relations"]}
        registered = [entry["name"] for entry in get("/rules")]
        if relation not in {*schemas, *registered}:
            raise ValueError(f"the server has no relation {relation!r}: it has {', '.join([*sorted(schemas), *registered])}")
        schema = schemas[relation] if relation in schemas else get(f"/rules/{urllib.parse.quote(relation)}")
        attributes = [(name, kind) for (name, _), kind in zip(schema["attributes"], schema["kinds"], strict=True)]
        if wrong := [name for name, kind in attributes if kind not in TYPES]:
            raise ValueError(f"{relation}.{wrong[0]} is a record, which a stream cannot have: stream a relation of its fields")
        return attributes

    def _get(self) -> Callable[[str], Any]:
        """Return a function that requests a path of the server."""
        return partial(request_json, self._option("url"), self.options.get("token"))

    def _option(self, name: str) -> str:
        """Return a required option."""
        if name not in self.options:
            raise ValueError(f'the source semi-naive has no option {name!r}: .option("{name}", …)')
        return self.options[name]


class ChangesReader(SimpleDataSourceStreamReader):
    """Reads the stream in one task, as changes are small."""

    def __init__(self, get: Callable[[str], Any], relation: str, kinds: list[str], since: int, parameters: str):
        self.get, self.relation, self.kinds, self.since, self.parameters = get, relation, kinds, since, parameters

    def initialOffset(self) -> dict:
        return {"epoch": self.since}

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        """Return the rows of the changes after the offset `start`, and the offset at which they end."""
        answer = self._between(start["epoch"])
        return self._rows(answer), {"epoch": answer["epoch"]}

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:
        return self._rows(self._between(start["epoch"], end["epoch"]))

    def _between(self, since: int, until: int | None = None) -> dict:
        """Request the changes between two epochs. until: by default the last one."""
        epochs = {"since": since} | ({} if until is None else {"until": until})
        options = "&".join(filter(None, [urllib.parse.urlencode(epochs), self.parameters]))
        return self.get(f"/differences/{urllib.parse.quote(self.relation)}?{options}")

    def _rows(self, answer: dict) -> Iterator[tuple]:
        """Return the rows of an answer of the server, with values of the types that Spark expects."""
        converters = [CONVERTERS.get(kind) for kind in (*self.kinds, "number")]  # the last one is for `diff`

        def converted(row: list) -> tuple:
            pairs = zip(converters, row, strict=True)
            return tuple(value if convert is None else convert(value) for convert, value in pairs)

        return iter([converted(row) for row in answer["changes"]])


def request_json(url: str, token: str | None, path: str) -> Any:
    """Request a path of a server, and return the JSON of the answer. Raises ValueError with the server's message."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url.rstrip("/") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        message = error.read().decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError):
            message = json.loads(message)["error"]
        raise ValueError(f"{url}{path}: {message}") from None
