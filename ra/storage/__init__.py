"""Runs: sorted, immutable files of packed tuples on the hosts, their checksums and their wire format."""
