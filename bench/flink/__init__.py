"""Tidegate beside Flink SQL: the same questions over the same files, in turn."""
