"""Metrics: what a batch did, in numbers."""
