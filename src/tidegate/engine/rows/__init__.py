"""Rows: from a source's rows to state, and from closed windows to results."""
