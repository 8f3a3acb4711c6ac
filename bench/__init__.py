"""The engine beside its peers: DuckDB's recursive query and a loop over Spark DataFrames. `python -m bench.closure`."""
