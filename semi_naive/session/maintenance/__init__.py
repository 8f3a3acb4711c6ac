"""How relations follow their facts: by what changes where that is less work, anew where it is not."""
