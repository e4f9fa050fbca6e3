"""The engine: the only place that computes with Spark."""
