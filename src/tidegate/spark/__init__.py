"""Spark: sessions, statements and files. What every module that computes needs."""
