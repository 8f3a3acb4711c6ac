"""The relations of a run: in the driver, on the partitions, their facts and their statistics."""
