"""Reads checkpoints for people: open windows, values, damage."""
