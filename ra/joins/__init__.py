"""Local joins of binary relations."""
