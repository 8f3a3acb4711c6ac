"""Text and symbols: fields, rows, strings as bytes, and their dense ids."""
