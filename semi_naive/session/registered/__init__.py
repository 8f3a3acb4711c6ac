"""Rules registered while a session runs, and subscriptions."""
