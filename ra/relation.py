"""Relations that a user can call operators on: sets of tuples of 64-bit integers and symbols, spread over Spark.

from semi_naive.ra.relation import Relation, count

edge = Relation.from_tuples([("a", "b"), ("b", "c"), ("a", "c")], ["x", "y"])
two_steps = edge.join(edge.rename(x="y", y="z")).project("x", "z")
two_steps.to_set()                                    # {("a", "c")}
edge.aggregate(by=["x"], degree=count()).to_pandas()
print(two_steps.explain())
"""

import numpy as np
from semi_naive.ra.evaluation import Plan, resolve, settled
from semi_naive.ra.explain import AtRest, fused_below, headline, tree
from semi_naive.ra.layout import Layout
from semi_naive.ra.operators.aggregate import Aggregate, aggregated_schema, count, max_, min_, sum_
from semi_naive.ra.operators.join import Join
from semi_naive.ra.operators.product import Product
from semi_naive.ra.operators.redistribute import Redistribute
from semi_naive.ra.operators.sets import SetOperation
from semi_naive.ra.operators.views import Viewed, selected
from semi_naive.ra.schema import Schema
from semi_naive.ra.view import View

__all__ = ["Relation", "Layout", "count", "sum_", "min_", "max_"]


class Relation:
    """A set of tuples with named attributes. Immutable and lazy: an operator returns a new relation and runs nothing.

    When its tuples are first needed a relation is evaluated, once, and then kept as sorted runs: bucketed by the hash
    of the columns that whoever needs it joins on, and again for every other set of columns it is joined on later.
    The runs go when the relation does, or at `close`.
    """

    def __init__(self, schema: Schema, layout: Layout, plan: Plan):
        self.schema, self.layout, self.plan = schema, layout, plan
        self.stored, self._closed = None, False

    # Where relations come from.

    @classmethod
    def from_tuples(cls, tuples, columns, kinds=None, spark=None, layout: Layout | None = None) -> "Relation":
        """Python tuples of ints and strings. `kinds`: {column: "int" or "symbol"}, needed only where there are no
        tuples to tell. Held in this process until first needed."""
        from semi_naive.ra.inputs import from_lists

        tuples, columns = list(tuples), tuple(columns)
        for number, row in enumerate(tuples):
            if len(row) != len(columns):
                raise ValueError(f"tuple {number} has {len(row)} values: expected {len(columns)}, of {columns}")
        lists = [list(values) for values in zip(*tuples, strict=True)] if tuples else [[] for _ in columns]
        schema, data = from_lists(columns, lists, kinds)
        return cls._local(schema, data, len(tuples), spark, layout)

    @classmethod
    def from_numpy(cls, array, columns, kinds=None, spark=None, layout: Layout | None = None) -> "Relation":
        """An array (n, arity) of integers, or of strings. Held in this process until first needed."""
        from semi_naive.ra.inputs import from_array

        schema, data = from_array(array, columns, kinds)
        return cls._local(schema, data, len(array), spark, layout)

    @classmethod
    def from_arrow(cls, table, columns=None, spark=None, layout: Layout | None = None) -> "Relation":
        """A pyarrow Table or RecordBatch of integer and string columns; `columns`: other names."""
        from semi_naive.ra.inputs import from_arrow_columns

        schema, data = from_arrow_columns(tuple(columns or table.schema.names), table.columns)
        return cls._local(schema, data, table.num_rows, spark, layout)

    @classmethod
    def from_pandas(cls, frame, columns=None, spark=None, layout: Layout | None = None) -> "Relation":
        """A pandas DataFrame of integer and string columns, without its index; `columns`: other names."""
        import pyarrow as pa

        if not len(frame.columns):
            return cls.from_tuples([()] * len(frame), (), spark=spark, layout=layout)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        return cls.from_arrow(table, columns or [str(name) for name in frame.columns], spark, layout)

    @classmethod
    def from_df(cls, frame, columns=None, layout: Layout | None = None) -> "Relation":
        """A Spark DataFrame of integer and string columns, read in parallel; `columns`: other names.

        The DataFrame is computed once, when the relation is first needed; only distinct strings pass through here."""
        from semi_naive.ra.inputs import Frame, frame_schema

        if len(set(frame.columns)) < len(frame.columns):
            raise ValueError(f"DataFrame: two columns have the same name among {', '.join(frame.columns)}: rename one")
        schema, layout = frame_schema(frame, columns), layout or Layout.of(frame.sparkSession)
        plan = Frame(frame.toDF(*schema.columns) if columns else frame, schema)
        return cls(schema, layout, plan)

    @classmethod
    def _local(cls, schema, data, rows, spark, layout):
        from semi_naive.ra.inputs import Local

        data = data if schema.arity else np.empty((0, rows), np.int64)
        return cls(schema, layout or Layout.of(spark), Local(data))

    # What is known of one without evaluating it.

    @property
    def columns(self) -> tuple[str, ...]:
        return self.schema.columns

    @property
    def arity(self) -> int:
        return self.schema.arity

    @property
    def view(self) -> View | None:
        """What of its parent this relation is, as long as it has no runs of its own."""
        return getattr(self.plan, "view", None)

    def names(self, positions) -> str:
        return ", ".join(self.columns[position] for position in positions)

    # Operators.

    def select(self, *equal, **constants) -> "Relation":
        """The tuples with these constants, `select(x=3, name="a")`, and equal columns, `select(("x", "y"))`. A view."""
        return self._seen(selected(self.schema, equal, constants), self.schema)

    def where_equal(self, *names) -> "Relation":
        """The tuples in which these columns agree. A view."""
        return self.select(names)

    def project(self, *names) -> "Relation":
        """Only these columns, in this order; what becomes equal is one tuple. A view."""
        columns = self.schema.positions(names)
        return self._seen(View(columns), self.schema.pick(columns))

    def reorder(self, *names) -> "Relation":
        """The same columns in another order. A view."""
        if sorted(names) != sorted(self.columns):
            raise ValueError(f"reorder needs each of {', '.join(self.columns)} once, not {', '.join(names)}")
        return self.project(*names)

    def rename(self, names: dict | None = None, **more) -> "Relation":
        """Other names for columns, `rename(x="y")` or a dict: old name to new. A view that shares every index."""
        return self._seen(View.whole(self.arity), self.schema.rename({**(names or {}), **more}))

    def join(self, other: "Relation", on=None) -> "Relation":
        """Natural join: tuples that agree on the shared columns, or on `on`: names, or {this one's: the other's}. All
        columns of this one, then those of the other that are not joined on.

        Builds the indexes that are missing, and keeps them; where no bucket is refined the sides do not move.
        """
        other = self._meeting(other)
        pairs = self.schema.join_pairs(other.schema, on)
        schema, columns = self.schema.joined(other.schema, pairs)
        return Relation(schema, self.layout, Join(self, other, pairs, columns) if pairs else Product(self, other))

    def product(self, other: "Relation") -> "Relation":
        """Every tuple of this one with every tuple of the other. The smaller one is sent to all partitions."""
        other = self._meeting(other)
        schema, _ = self.schema.joined(other.schema, (), "product")
        return Relation(schema, self.layout, Product(self, other))

    def union(self, *others: "Relation") -> "Relation":
        """Tuples of any of them. What is hashed alike is merged in place, the rest is shuffled once."""
        return self._together("union", others)

    def intersection(self, other: "Relation") -> "Relation":
        """Tuples of both. What is hashed alike is read in place, the rest is shuffled once."""
        return self._together("intersection", (other,))

    def difference(self, other: "Relation") -> "Relation":
        """Tuples of this one that are not in the other. What is hashed alike stays, the rest is shuffled once."""
        return self._together("difference", (other,))

    __or__, __and__, __sub__ = union, intersection, difference

    def distinct(self) -> "Relation":
        """This relation, which is a set already: no work."""
        return self

    def aggregate(self, by=(), **wanted) -> "Relation":
        """One tuple for each group of equal `by` columns, with e.g. `n=count(), total=sum_("w"), low=min_("w")`.

        by=[] is one group, with a row even of no tuples, unless a minimum or maximum is asked of them. Integers only;
        a sum beyond 64 bits raises OverflowError. One row a group and partition is shuffled, at most.
        """
        by = (by,) if isinstance(by, str) else tuple(by)
        schema = aggregated_schema(self.schema, by, wanted)
        return Relation(schema, self.layout, Aggregate(self, self.schema.positions(by), wanted))

    def with_layout(self, layout: Layout) -> "Relation":
        """The same tuples over other partitions and buckets. One shuffle."""
        return self if layout == self.layout else Relation(self.schema, layout, Redistribute(self))

    def _seen(self, view: View, schema: Schema) -> "Relation":
        return Relation(schema, self.layout, Viewed(self, view, schema))

    def _meeting(self, other: "Relation") -> "Relation":
        if not isinstance(other, Relation):
            raise TypeError(f"expected a Relation, not {type(other).__name__}: see Relation.from_tuples and the like")
        return other if other.layout.fabric is self.layout.fabric else other.with_layout(self.layout)

    def _together(self, how: str, others) -> "Relation":
        sides = [self]
        for other in map(self._meeting, others):
            order = self.schema.aligned(other.schema, how)
            sides.append(other if order == tuple(range(self.arity)) else other.project(*self.columns))
        return Relation(self.schema, self.layout, SetOperation(how, sides))

    # Evaluation and what comes of it.

    def settle(self, stored, note: str) -> None:
        """It has been evaluated: from now on the runs are what it is, and what it was made of may go."""
        if self.stored is None:
            self.plan = AtRest(headline(self), note, fused_below(self))
            self.stored = stored

    def evaluate(self) -> "Relation":
        """Run the jobs now, if they have not run yet."""
        settled(self)
        return self

    def count(self) -> int:
        """How many tuples. Evaluates; known without a job afterwards."""
        return settled(self)[0].count

    __len__ = count

    def to_df(self):
        """A Spark DataFrame. Evaluates; reads the runs, without a shuffle, whenever Spark needs it. The runs then stay
        until `close` or the end of the program, even if this object does not."""
        from semi_naive.ra.outputs import to_df

        return to_df(self)

    def to_arrow(self):
        """A pyarrow Table, collected to this process."""
        import pyarrow as pa
        from semi_naive.ra.outputs import collected, to_arrow

        return pa.Table.from_batches([to_arrow(collected(self), self.schema)])

    def to_pandas(self):
        """A pandas DataFrame, collected to this process."""
        import pandas as pd

        return self.to_arrow().to_pandas() if self.arity else pd.DataFrame(index=range(self.count()))

    def to_numpy(self):
        """An array (n, arity), collected to this process: int64, or of objects when some column holds symbols."""
        from semi_naive.ra.outputs import collected, to_arrow

        columns = collected(self)
        if set(self.schema.kinds) <= {"int"}:
            return np.ascontiguousarray(columns.T)
        values = [column.to_numpy(zero_copy_only=False) for column in to_arrow(columns, self.schema).columns]
        return np.stack([column.astype(object) for column in values], axis=1)

    def to_set(self) -> set[tuple]:
        """A set of Python tuples, collected to this process."""
        if not self.arity:
            return {()} if self.count() else set()
        return set(zip(*(column.to_pylist() for column in self.to_arrow().columns), strict=True))

    def explain(self) -> str:
        """The tree of operators with what each costs: what was done, where it has been evaluated, what will be done,
        where not; and which indexes are kept. Runs nothing."""
        return "\n".join(tree(self).lines())

    def close(self) -> None:
        """Remove the runs. Relations that only are views of this one cannot be read any more either."""
        self._closed = True
        if self.stored is not None:
            self.stored.close()

    def check_open(self) -> None:
        if self._closed or (self.stored is not None and self.stored.closed):
            raise ValueError(f"the relation {self.schema} has been closed")

    def __enter__(self) -> "Relation":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def __repr__(self) -> str:
        base, view = (self, None) if self._closed else resolve(self)
        known = base.stored is not None and (view is None or view.permutes(base.arity))
        state = "closed" if self._closed else f"{base.stored.count:,} tuples" if known else "not evaluated"
        return f"<Relation {self.schema}, {state}>"
