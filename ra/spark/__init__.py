"""Spark at the edge: sessions, Java, jobs and shuffles, lost executors, replicas and failures."""
