"""Formats of facts: text, JSON, MatrixMarket, Arrow, parquet, SQLite."""
