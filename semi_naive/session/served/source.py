"""The changes of a relation as a stream of Spark's: a Python data source that reads `semi-naive serve`.

    spark.dataSource.register(ChangesSource)
    changes = spark.readStream.format("semi-naive").options(url="http://127.0.0.1:8642", relation="path").load()

Its rows are the relation's columns and `diff`, 1 of a tuple that came, -1 of one that is gone. The offset of the stream is the
epoch: what a batch has is the difference of two epochs, so a batch that is read again is the same, as long as the server
retains both (`--retain`).
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from decimal import Decimal

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

PATIENCE = 60.0  # seconds for an answer
TYPES = {"number": "bigint", "unsigned": "decimal(20, 0)", "float": "double", "symbol": "string"}


class ChangesSource(DataSource):
    """Options: `url` of the server; `relation`; `since`, the epoch after which the stream begins. Without `since` it begins
    with all tuples that there are."""

    @classmethod
    def name(cls) -> str:
        return "semi-naive"

    def schema(self) -> str:
        attributes = ", ".join(f"`{name}` {TYPES[kind]}" for name, kind in self._attributes())
        return f"{attributes}, diff int"

    def simpleStreamReader(self, schema) -> "ChangesReader":
        kinds = [kind for _, kind in self._attributes()]
        return ChangesReader(self._option("url"), self._option("relation"), kinds, int(self.options.get("since", -1)))

    def _attributes(self) -> list[tuple[str, str]]:
        relation = self._option("relation")
        found = {each["name"]: each for each in asked(self._option("url"), "/relations")["relations"]}
        if relation not in found:
            raise ValueError(f"the server has no relation {relation!r}: it has {', '.join(sorted(found))}")
        kinds = zip(found[relation]["attributes"], found[relation]["kinds"], strict=True)
        attributes = [(name, kind) for (name, _), kind in kinds]
        if wrong := [name for name, kind in attributes if kind not in TYPES]:
            raise ValueError(f"{relation}.{wrong[0]} is a record, which a stream cannot have: stream a relation of its fields")
        return attributes

    def _option(self, name: str) -> str:
        if name not in self.options:
            raise ValueError(f'the source semi-naive has no option {name!r}: .option("{name}", …)')
        return self.options[name]


class ChangesReader(SimpleDataSourceStreamReader):
    """Reads in one place: what changes is small."""

    def __init__(self, url: str, relation: str, kinds: list[str], since: int):
        self.url, self.relation, self.kinds, self.since = url, relation, kinds, since

    def initialOffset(self) -> dict:
        return {"epoch": self.since}

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        told = self._between(start["epoch"])
        return self._rows(told), {"epoch": told["epoch"]}

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:
        return self._rows(self._between(start["epoch"], end["epoch"]))

    def _between(self, since: int, until: int | None = None) -> dict:
        given = {"since": since} | ({} if until is None else {"until": until})
        return asked(self.url, f"/differences/{urllib.parse.quote(self.relation)}?{urllib.parse.urlencode(given)}")

    def _rows(self, told: dict) -> Iterator[tuple]:
        read = {"unsigned": Decimal, "float": float}
        reading = [*(read.get(kind, _same) for kind in self.kinds), _same]
        return iter([tuple(one(value) for one, value in zip(reading, row, strict=True)) for row in told["changes"]])


def _same(value):
    return value


def asked(url: str, path: str) -> dict:
    """What the server answers; ValueError with its own words if that is an error."""
    try:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=PATIENCE) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as wrong:
        told = wrong.read().decode(errors="replace")
        try:
            told = json.loads(told)["error"]
        except (ValueError, KeyError):
            pass
        raise ValueError(f"{url}{path}: {told}") from None
