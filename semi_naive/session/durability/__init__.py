"""What of a session outlives its process."""
