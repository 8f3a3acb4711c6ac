"""Components and their instances."""
