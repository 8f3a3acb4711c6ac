"""DuckDB as a peer: the same question as a recursive query, over the same files."""

from functools import partial
from pathlib import Path

from bench.peers import Sample, by_duckdb, copied

COLUMNS = "xyz"


def query(sql: str, folder, spark, timeout: float) -> Sample:
    """Load the folder's files as tables with columns x, y, z, and run the query: on as many threads as Spark has cores."""

    def answer(connection) -> int:
        load(folder, connection)
        return connection.execute(sql).fetchone()[0]

    return by_duckdb(answer, spark.sparkContext.defaultParallelism, timeout)


def query_written(sql: str, folder, spark, timeout: float) -> Sample:
    """The same, of a query that counts rows, until they are in a parquet file."""
    return copied(partial(load, folder), sql, spark, timeout)


def load(folder, connection) -> None:
    for file in sorted(Path(folder).glob("*.facts")):
        connection.execute(f"CREATE TABLE {file.stem} AS FROM read_csv('{file}', header=false, {_schema(file)})")


def _schema(file: Path) -> str:
    """How read_csv is told the columns, from how many the first line has."""
    with file.open() as lines:
        width = lines.readline().count("\t") + 1
    named = ", ".join(f"'{name}': 'BIGINT'" for name in COLUMNS[:width])
    return f"delim='\\t', columns={{{named}}}"
