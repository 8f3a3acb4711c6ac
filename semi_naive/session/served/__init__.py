"""A session for others: over HTTP, and for streams of Spark."""
