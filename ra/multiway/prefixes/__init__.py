"""What BiGJoin does to batches of prefixes and their candidates, wherever they are. No Spark."""
