"""Probes: the parts of a statement as queries that Spark's analyzer can check."""
