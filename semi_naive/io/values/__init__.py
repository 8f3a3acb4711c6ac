"""Values of facts: from text, Python and Arrow to 64 bits, and back."""
