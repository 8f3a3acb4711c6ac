"""The language server: `server` implements the protocol; the other modules are independent of it."""
