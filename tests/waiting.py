"""The cases that the engine does not pass yet, by name, and why. The oracle passes all of them.

The reason is part of the failure's message; a test checks that it still is.
"""

from __future__ import annotations

WAITING: dict[str, str] = {}
