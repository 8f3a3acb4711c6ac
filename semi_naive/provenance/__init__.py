"""Provenance: proofs of tuples, and reasons for their absence, found backwards from the relations of a run."""
