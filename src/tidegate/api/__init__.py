"""The Python API: ``sql``, ``Query`` and what they are given."""
