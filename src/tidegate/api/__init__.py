"""The Python API: ``sql``, ``Query`` and their arguments."""
