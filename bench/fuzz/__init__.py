"""Random broken inputs: text files of facts, JSON, SQLite and parquet files, mutants of real programs.

Each module makes a case from a `random.Random` (or from hypothesis's `st.randoms()`, which then shrinks it), and says what is
wrong about how it went.
"""
