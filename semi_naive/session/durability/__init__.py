"""The parts of a session that are stored in its directory, so that they outlive its process."""
