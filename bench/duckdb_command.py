"""DuckDB as a command: `python -m bench.duckdb_command QUERY.sql RESULT -F FACTS -jN -D OUT` answers a query over the parquet
files of a folder, each a table of its name, and writes the rows as text with tabs."""

import sys
from pathlib import Path


def main(query: str, result: str, _, facts: str, jobs: str, __, out: str) -> None:
    import duckdb

    connection = duckdb.connect(config={"threads": int(jobs.removeprefix("-j"))})
    for file in sorted(Path(facts).glob("*.parquet")):
        connection.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
    copied = f"COPY ({Path(query).read_text()}) TO '{Path(out) / result}' (HEADER false, DELIMITER '\t')"
    connection.execute(copied)


if __name__ == "__main__":
    main(*sys.argv[1:])
