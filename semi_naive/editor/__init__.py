"""The language server: what editors ask about a program. `server` speaks the protocol, the others know nothing of it."""
