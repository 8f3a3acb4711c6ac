"""Rules that come while a session runs, and who is told what."""
