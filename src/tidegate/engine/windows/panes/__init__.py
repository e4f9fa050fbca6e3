"""Tumbling, hopping and cumulating windows."""
