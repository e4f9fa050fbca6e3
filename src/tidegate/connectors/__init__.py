"""Connectors: the systems that rows come from and go to.

``table.py`` lists them; each has a module of its own.
"""
