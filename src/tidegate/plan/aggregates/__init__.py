"""Aggregates as data: update, merge and evaluate, each as Spark SQL text."""
