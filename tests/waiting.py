"""The cases that the engine does not pass yet, by name, and why. The oracle passes all of them.

The reason is part of the failure's message; a test checks that it still is.
"""

from __future__ import annotations

WAITING: dict[str, str] = {
    "groups beyond max_groups are evicted, the first seen "
    "stay": "The setting max_groups is planned and not yet run",
    "for sessions max_groups limits the keys that have an open "
    "session": "The setting max_groups is planned and not yet run",
}
