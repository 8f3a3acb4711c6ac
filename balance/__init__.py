"""The distribution of tuples over partitions, its changes, and the record of a run: arithmetic on hashes and sizes, without
Spark.
"""
