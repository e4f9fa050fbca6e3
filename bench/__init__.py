"""Benchmarks: Tidegate against Spark's own operator and the plain batch job, in one run."""
