"""What the Javas of the tests have in common, for `make` to keep: Spark is started, a job and a data frame load its classes.

Run by `spark-submit`, so that Java ends in order, and leaves an archive of them (-XX:ArchiveClassesAtExit).
"""

from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    assert spark.sparkContext.parallelize([1, 2], 2).map(lambda x: x + 1).collect() == [2, 3]
    assert spark.createDataFrame([(1, "a")], "x int, y string").collect() == [(1, "a")]
    spark.stop()
