"""Relations of a result as Spark DataFrames."""

from dataclasses import dataclass

from semi_naive.io import arrow_table
from semi_naive.ra.frames import Each, dataframe
from semi_naive.ra.rules.ir import Relation, Type
from semi_naive.ra.rules.partitioned import PartitionedRelation
from semi_naive.ra.rules.reaching import Reachability
from semi_naive.ra.rules.reading import pieces_of
from semi_naive.ra.rules.values import SharedValues


@dataclass
class ReadFrame:
    """The tuples of a partition as record batches with the declared names, and types as Spark has them."""

    spread: PartitionedRelation | Reachability
    relation: Relation
    types: dict[str, Type]
    values: SharedValues

    def __call__(self, partition):
        for columns in pieces_of(self.spread, partition):
            yield from as_spark_has_it(arrow_table(self.relation, self.types, columns, self.values)).to_batches()


def frame_of(result, name: str):
    """The DataFrame of a relation; of one on the partitions, nothing is collected."""
    from pyspark.sql import SparkSession

    result.cluster.start()
    session = SparkSession.builder.getOrCreate()
    found, relation = result.database.on_partitions.get(name), result.relations[name]
    if found is None:
        return session.createDataFrame(as_spark_has_it(result[name].to_arrow()))
    from pyspark.sql.pandas.types import from_arrow_schema

    empty = as_spark_has_it(arrow_table(relation, result.types, result.columns_of_nothing(relation), result.values))
    values = result.cluster.share_values(result.values)
    read, schema = ReadFrame(found.relation, relation, result.types, values), from_arrow_schema(empty.schema)
    if isinstance(found.relation, Reachability):  # any host can make the tuples again
        return session.range(0, found.pieces, 1, found.pieces).mapInArrow(Each(read), schema)
    runs = [[stored.run for stored in blocks] for blocks in found.relation.home.full]
    return dataframe(result.cluster.jobs, runs, read, schema)


def as_spark_has_it(table):
    """Unsigned columns as decimals of 20 digits: Spark has no unsigned type, and a long would not hold them."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if field.type == pa.uint64():
            table = table.set_column(number, field.name, table.column(number).cast(pa.decimal128(20, 0)))
    return table
