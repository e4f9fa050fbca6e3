"""Binding: from ``SelectStmt`` to ``BoundQuery``, with every name looked up."""
