"""State and count windows."""
