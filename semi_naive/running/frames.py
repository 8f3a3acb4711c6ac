"""Relations of a result as Spark DataFrames."""

from dataclasses import dataclass

from semi_naive.io import arrow_table
from semi_naive.ra.rules.ir import Kind, Relation, Type
from semi_naive.ra.rules.reading import pieces_of
from semi_naive.ra.rules.spread import SpreadRelation
from semi_naive.running.spread import Spread


@dataclass
class ReadFrame:
    """As `DataFrame.mapInArrow` calls it: one row for each partition in, its tuples out, with the declared names and types."""

    spread: SpreadRelation
    relation: Relation
    types: dict[str, Type]
    values: object

    def __call__(self, batches):
        for batch in batches:
            for partition in batch.column(0).to_pylist():
                for columns in pieces_of(self.spread, partition):
                    yield from arrow_table(self.relation, self.types, columns, self.values).to_batches()


def frame_of(result, name: str):
    """The DataFrame of a relation; of one on the partitions, nothing is collected."""
    from pyspark.sql import SparkSession

    result.cluster.start()
    session = SparkSession.builder.getOrCreate()
    found, relation = result.database.spread.get(name), result.relations[name]
    if found is not None and hasattr(found, "closure") and all(kind == Kind.NUMBER for kind in relation.kinds):
        return found.closure.to_df().toDF(*(attribute for attribute, _ in relation.attributes))
    if not isinstance(found, Spread):
        return session.createDataFrame(as_spark_has_it(result[name].to_arrow()))
    from pyspark.sql.pandas.types import from_arrow_schema

    empty = as_spark_has_it(arrow_table(relation, result.types, result.columns_of_nothing(relation), result.values))
    values = result.cluster.share_values(result.values)
    partitions = found.relation.home.map.partitions
    read = ReadFrame(found.relation, relation, result.types, values)
    return session.range(0, partitions, 1, partitions).mapInArrow(Signed(read), from_arrow_schema(empty.schema))


@dataclass
class Signed:
    """Record batches without what Spark has no type for."""

    read: ReadFrame

    def __call__(self, batches):
        import pyarrow as pa

        for batch in self.read(batches):
            yield from as_spark_has_it(pa.Table.from_batches([batch])).to_batches()


def as_spark_has_it(table):
    """Unsigned columns as decimals of 20 digits: Spark has no unsigned type, and a long would not hold them."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if field.type == pa.uint64():
            table = table.set_column(number, field.name, table.column(number).cast(pa.decimal128(20, 0)))
    return table
