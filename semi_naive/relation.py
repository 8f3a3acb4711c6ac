"""Relational algebra for users: relations of numbers and strings with operators, evaluated as Datalog rules.

from semi_naive.relation import Relation, count

edge = Relation.from_tuples([("a", "b"), ("b", "c"), ("a", "c")], ["x", "y"])
two_steps = edge.join(edge.rename(x="y", y="z")).project("x", "z")
two_steps.to_set()                                    # {("a", "c")}
edge.aggregate(by=["x"], degree=count()).to_list()
print(two_steps.explain())                            # answer(x, z) :- given1(x, y), given1(y, z).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.algebra import ANSWER, Rules
from semi_naive.config import Config
from semi_naive.host.numbers import quantity
from semi_naive.operators import Difference, GroupBy, NaturalJoin, Operator, Project, Select, Union
from semi_naive.ra.spark.spark_context import is_connect
from semi_naive.schema import Schema, aggregated, constant
from semi_naive.tuples import Tuples

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Relation", "count", "sum_", "min_", "max_"]


@dataclass(frozen=True)
class Summary:
    """An aggregate of a group of tuples; made by count(), sum_(column), min_(column) or max_(column)."""

    op: str
    column: str | None = None


def count() -> Summary:
    """Return the aggregate that is the number of tuples."""
    return Summary("count")


def sum_(column: str) -> Summary:
    """Return the aggregate that is a column's sum. For integers it is exact; OverflowError is raised if it exceeds 64 bits."""
    return Summary("sum", column)


def min_(column: str) -> Summary:
    """Return the aggregate that is the least value of a column of numbers."""
    return Summary("min", column)


def max_(column: str) -> Summary:
    """Return the aggregate that is the greatest value of a column of numbers."""
    return Summary("max", column)


class Relation(Tuples):
    """A set of tuples with named columns. Immutable and lazy: an operator returns a new relation and runs nothing.

    When its tuples are first needed a relation becomes a Datalog program, which is run once: in this process while it is small,
    on Spark's partitions once it is large (`Config.local_tuples`). From then on it holds its tuples, with an index for each set
    of columns that it has been joined on, and releases its inputs. The tuples live as long as the relation, or until `close`.
    """

    def __init__(self, schema: Schema, node: Operator, spark: Any = None, config: Config | None = None):
        self.schema, self._node, self._spark, self._config = schema, node, spark, config or Config()

    # -- constructors; spark: as for `Program.run`; options: tunables, by the names in `Config`

    @classmethod
    def from_tuples(
        cls, tuples: Iterable[tuple], columns: Iterable[str], kinds: dict[str, str] | None = None, spark: Any = None,
        config: Config | None = None, **options: Any,
    ) -> "Relation":  # fmt: skip
        """Make a relation of Python tuples of ints, floats and strings. `kinds`: {column: "number", "unsigned", "float" or
        "symbol"}, needed only where the tuples do not tell."""
        from semi_naive.io.relations import of_tuples

        return cls._of_facts(*of_tuples(tuples, tuple(columns), kinds), spark, config, options)

    @classmethod
    def from_numpy(
        cls, array: np.ndarray, columns: Iterable[str], kinds: dict[str, str] | None = None, spark: Any = None,
        config: Config | None = None, **options: Any,
    ) -> "Relation":  # fmt: skip
        """Make a relation of an array (n, arity) of integers, floats or strings. `kinds`: as for `from_tuples`."""
        from semi_naive.io.relations import of_array

        return cls._of_facts(*of_array(array, tuple(columns), kinds), spark, config, options)

    @classmethod
    def from_arrow(
        cls, table: Any, columns: Iterable[str] | None = None, spark: Any = None, config: Config | None = None, **options: Any
    ) -> "Relation":
        """Make a relation of a pyarrow Table or RecordBatch, or other data with Arrow's interface, with columns of integers,
        floats and strings; `columns`: other names."""
        from semi_naive.io.relations import of_arrow

        return cls._of_facts(*of_arrow(table, columns), spark, config, options)

    @classmethod
    def from_pandas(
        cls, frame: Any, columns: Iterable[str] | None = None, spark: Any = None, config: Config | None = None, **options: Any
    ) -> "Relation":
        """Make a relation of a pandas DataFrame with columns of integers, floats and strings, without its index; `columns`:
        other names."""
        import pyarrow as pa

        if not len(frame.columns):
            return cls.from_tuples([()] * len(frame), (), None, spark, config, **options)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return cls.from_arrow(table, columns or [str(name) for name in frame.columns], spark, config, **options)

    @classmethod
    def from_polars(
        cls, frame: Any, columns: Iterable[str] | None = None, spark: Any = None, config: Config | None = None, **options: Any
    ) -> "Relation":
        """Make a relation of a polars DataFrame or LazyFrame with columns of integers, floats, and strings or categories;
        `columns`: other names."""
        return cls.from_arrow(frame, columns, spark, config, **options)

    @classmethod
    def from_df(
        cls, frame: Any, columns: Iterable[str] | None = None, config: Config | None = None, **options: Any
    ) -> "Relation":
        """Make a relation of a Spark DataFrame with columns of integers, floats and strings; `columns`: other names. Spark
        computes it when a relation that depends on it is evaluated."""
        from semi_naive.io.relations import of_frame

        spark = None if is_connect(frame) else frame.sparkSession
        return cls._of_facts(*of_frame(frame, columns), spark, config, options)

    @classmethod
    def _of_facts(cls, schema: Schema, facts, spark, config: Config | None, options: dict[str, Any]) -> "Relation":
        """Make a relation of facts: a `Table`, or a Spark DataFrame. options: tunables that replace those of `config`."""
        return cls(schema, Operator(schema, held=facts), spark, (config or Config()).with_options(options))

    # -- properties that need no evaluation

    @property
    def columns(self) -> tuple[str, ...]:
        return self.schema.columns

    @property
    def arity(self) -> int:
        return self.schema.arity

    # -- operators

    def select(self, *equal: tuple[str, ...], **constants: Any) -> "Relation":
        """Return the tuples with these constants, `select(x=3, name="a")`, and equal columns, `select(("x", "y"))`."""
        pairs = tuple(pair for names in equal for pair in self.schema.equal_pairs(names))
        fixed = tuple((self.schema.position(name), constant(self.schema, name, value)) for name, value in constants.items())
        return self._with(self.schema, Select, equal=pairs, constants=fixed)

    def where_equal(self, *names: str) -> "Relation":
        """Return the tuples in which these columns agree."""
        return self.select(names)

    def project(self, *names: str) -> "Relation":
        """Return only these columns, in this order; duplicates are dropped."""
        columns = self.schema.positions(names)
        return self._with(self.schema.pick(columns), Project, columns=columns)

    def reorder(self, *names: str) -> "Relation":
        """Return the same columns in another order."""
        if sorted(names) != sorted(self.columns):
            raise ValueError(f"reorder needs each of {', '.join(self.columns)} once, not {', '.join(names)}")
        return self.project(*names)

    def rename(self, names: Mapping[str, str] | None = None, **more: str) -> "Relation":
        """Return the relation with other column names, `rename(x="y")` or a dict from old to new. Both relations are evaluated
        together, once."""
        return Relation(self.schema.rename({**(names or {}), **more}), self._node, self._spark, self._config)

    def join(self, other: "Relation", on: Any = None) -> "Relation":
        """Return the natural join: tuples that agree on the shared columns, or on `on`: names, or {this one's: the other's}. It
        has all columns of this relation, then those of the other that are not joined on."""
        pairs = self.schema.join_pairs(_checked_relation(other).schema, on)
        schema, columns = self.schema.joined(other.schema, pairs)
        return self._with(schema, NaturalJoin, other, pairs=pairs, columns=columns)

    def product(self, other: "Relation") -> "Relation":
        """Return every tuple of this relation with every tuple of the other."""
        schema, columns = self.schema.joined(_checked_relation(other).schema, (), "product")
        return self._with(schema, NaturalJoin, other, columns=columns)

    def union(self, *others: "Relation") -> "Relation":
        """Return the tuples of any of the relations, which have the same attributes. Attributes are matched by name."""
        # for each relation, the places of this one's attributes in it
        orders = [self.schema.aligned(_checked_relation(other).schema, "union") for other in others]
        return self._with(self.schema, Union, *others, orders=(tuple(range(self.arity)), *orders))

    def intersection(self, other: "Relation") -> "Relation":
        """Return the tuples that are in both relations."""
        order = self.schema.aligned(_checked_relation(other).schema, "intersection")
        return self._with(self.schema, NaturalJoin, other, pairs=tuple(enumerate(order)), columns=tuple(range(self.arity)))

    def difference(self, other: "Relation") -> "Relation":
        """Return the tuples of this relation that are not in the other."""
        order = self.schema.aligned(_checked_relation(other).schema, "difference")
        return self._with(self.schema, Difference, other, order=order)

    __or__, __and__, __sub__ = union, intersection, difference

    def distinct(self) -> "Relation":
        """Return this relation, which is a set already."""
        return self

    def aggregate(self, by: str | Iterable[str] = (), **wanted: Any) -> "Relation":
        """Return one tuple for each group of equal `by` columns, with e.g. `n=count(), total=sum_("w"), low=min_("w")`.

        by=[] is one group, which also has a row if there are no tuples, unless there is a minimum or maximum. Symbols have no
        sum, minimum or maximum; a sum of integers beyond 64 bits raises OverflowError.
        """
        by = (by,) if isinstance(by, str) else tuple(by)
        for name, each in wanted.items():
            if not isinstance(each, Summary):
                raise ValueError(f"aggregate: {name}={each!r}: expected count(), sum_(…), min_(…) or max_(…) of a column")
        summaries = {name: (each.op, each.column) for name, each in wanted.items()}
        places = tuple((op, None if column is None else self.schema.position(column)) for op, column in summaries.values())
        return self._with(aggregated(self.schema, by, summaries), GroupBy, by=self.schema.positions(by), wanted=places)

    def with_options(self, config: Config | None = None, **options: Any) -> "Relation":
        """Return the same relation under another configuration, which relations derived from it inherit."""
        return Relation(self.schema, self._node, self._spark, (config or self._config).with_options(options))

    def _with(self, schema: Schema, operator, *others: "Relation", **how) -> "Relation":
        """Return the relation of an operator applied to this one and others. how: the arguments of the operator."""
        spark = next((each._spark for each in (self, *others) if each._spark is not None), None)
        node = operator(schema, tuple(each._node for each in (self, *others)), **how)
        return Relation(schema, node, spark, self._config)

    # -- evaluation and results

    def evaluate(self) -> "Relation":
        """Run the program now, if it has not run yet."""
        self._result()
        return self

    def _result(self):
        """Return the `Result` of the program that computes the relation, which is run once."""
        node = self._node
        if node.result is None:
            rules = Rules(node)
            facts = {name: given.facts() for name, given in rules.given.items()}
            result = _program(rules).run(facts, self._spark, self._config, only_outputs=True)
            try:
                _check_sums(rules, result)
                node.hold(result)
            except BaseException:
                result.close()
                raise
        return node.result

    def _answer(self):
        """Return the relation of the result that has the tuples, with this relation's column names. Evaluates."""
        self._node.check_open()
        return self._result()[ANSWER].renamed(self.columns)

    @property
    def trace(self) -> dict:
        """The record of the run that computed the relation. Evaluates."""
        return self._result().trace

    def count(self) -> int:
        """Return the number of tuples. Evaluates the relation, once."""
        return self._answer().count()

    def arrow_schema(self) -> "pa.Schema":
        return self._answer().arrow_schema()

    def to_batches(self, dictionaries: bool = False) -> "Iterator[pa.RecordBatch]":
        return self._answer().to_batches(dictionaries)

    def to_arrow(self, dictionaries: bool = False) -> "pa.Table":
        return self._answer().to_arrow(dictionaries)

    def first(self, count: int) -> list[tuple]:
        return self._answer().first(count)

    def _repr_html_(self) -> str:
        """Return the first tuples if the relation is evaluated, otherwise the rules."""
        from semi_naive.notebooks.html import text_shown

        evaluated = self._node.result is not None and not self._node.closed
        return super()._repr_html_() if evaluated else text_shown(repr(self)[1:-1], "" if self._node.closed else self.explain())

    def to_numpy(self) -> np.ndarray:
        return self._answer().to_numpy()

    def to_list(self) -> list[tuple]:
        return self._answer().to_list()

    def to_df(self) -> "DataFrame":
        """Return a Spark DataFrame. Evaluates the relation; Spark reads tuples on the partitions when it needs them. They are
        kept until `close` or the end of the program, even if this object is not."""
        return self._answer().to_df()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the tuples to a file, in the format of its name: .parquet, or rows of text: .csv with commas, .tsv .facts .txt
        with tabs; text also .gz."""
        self._answer().write(path)

    def explain(self) -> str:
        """Return the rules, the plans and the join orders as text: as executed, or as planned if the relation is not evaluated.
        Runs nothing."""
        self._node.check_open()
        if self._node.result is not None:
            return self._node.result.explain()
        rules = Rules(self._node)
        facts = None  # plans without sizes: those of a DataFrame would cost a job
        if all(given.in_process for given in rules.given.values()):
            facts = {name: given.facts() for name, given in rules.given.items()}
        return _program(rules).explain(facts, self._config, only_outputs=True)

    def close(self) -> None:
        """Release the tuples. Relations derived from this one that are not evaluated can no longer be."""
        self._node.close()

    def __repr__(self) -> str:
        result = self._node.result
        known = "not evaluated" if result is None else quantity(result[ANSWER].count(), "tuple")
        return f"<Relation {self.schema}, {'closed' if self._node.closed else known}>"


def _checked_relation(other) -> Relation:
    """Return the argument. Raises TypeError if it is not a Relation."""
    if not isinstance(other, Relation):
        raise TypeError(f"expected a Relation, not {type(other).__name__}: see Relation.from_tuples and the like")
    return other


def _program(rules: Rules):
    """Return the program that some rules of `semi_naive.algebra` make up."""
    from semi_naive.program import Program

    return Program.from_checked(rules.program(), "relation")


def _check_sums(rules: Rules, result) -> None:
    """Raise OverflowError if a group has a sum that exceeds 64 bits. The relations `rules.beyond` have such groups."""
    for name, (label, _) in rules.beyond.items():
        if len(result[name]):
            [group] = result[name].to_arrow().slice(0, 1).to_pylist()
            shown = ", ".join(f"{column} = {value!r}" for column, value in group.items())
            what = f"the group {shown}" if shown else "all tuples"
            raise OverflowError(f"{label}: the sum of {what} does not fit into 64 bits")
