"""DuckDB as a peer: the same question as a recursive query, over the same files."""

import time
from pathlib import Path

from bench.peers import Sample, alarm

COLUMNS = "xyz"


def query(sql: str, folder, spark, timeout: float) -> Sample:
    """Load the folder's files as tables with columns x, y, z, and run the query: on as many threads as Spark has cores."""
    import duckdb

    begun = time.perf_counter()
    with duckdb.connect(config={"threads": spark.sparkContext.defaultParallelism}) as connection:
        with alarm(timeout, connection.interrupt):
            try:
                for file in sorted(Path(folder).glob("*.facts")):
                    connection.execute(f"CREATE TABLE {file.stem} AS FROM read_csv('{file}', header=false, {_schema(file)})")
                answer = int(connection.execute(sql).fetchone()[0])
            except duckdb.InterruptException:
                answer = None
        return Sample(time.perf_counter() - begun, answer)


def _schema(file: Path) -> str:
    """How read_csv is told the columns, from how many the first line has."""
    with file.open() as lines:
        width = lines.readline().count("\t") + 1
    named = ", ".join(f"'{name}': 'BIGINT'" for name in COLUMNS[:width])
    return f"delim='\\t', columns={{{named}}}"
