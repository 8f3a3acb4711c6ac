"""BiGJoin on partitions: what travels between tasks, and what they do with it."""
