"""Joins variable by variable, worst-case optimal: leapfrog triejoin over trie arrays, and BiGJoin on partitions."""
