"""Access to a session from other programs: over HTTP, and by streams of Spark."""
