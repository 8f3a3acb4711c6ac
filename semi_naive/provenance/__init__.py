"""Why a tuple is there, and why one is not: proofs, found backwards from the relations that a run has left."""
