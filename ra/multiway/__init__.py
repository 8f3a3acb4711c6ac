"""Joins variable by variable, worst-case optimal: leapfrog triejoin over trie arrays, and BiGJoin on partitions.

The ways to evaluate a `query` are here; what they are made of is in packages, each a room of its own.
"""
