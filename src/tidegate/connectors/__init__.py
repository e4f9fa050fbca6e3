"""Connectors: the systems that rows come from and go to."""
