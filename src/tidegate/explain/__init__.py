"""EXPLAIN: both plans as text and as JSON."""
