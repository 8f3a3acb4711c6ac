"""The language server. `server` speaks the protocol; the other modules are independent of it."""
