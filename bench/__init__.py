"""Benchmarks: Tidegate beside Spark's own operator and the plain batch job, in one run."""
