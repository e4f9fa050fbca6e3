"""The cases that the engine does not pass yet, by name, and why. The oracle passes all of them.

The reason is a piece of what the case fails with; a test sees to it that it still does.
"""

from __future__ import annotations

WAITING: dict[str, str] = {
    "a division by zero takes the row out and names the reason": "DIVIDE_BY_ZERO",
    "with the policy null a division by zero gives NULL and the row stays": "DIVIDE_BY_ZERO",
    "a value that cannot be cast is an error, a branch that is not taken "
    "is not": "CAST_INVALID_INPUT",
    "an error in WHERE is an error row, a row that does not pass is only "
    "filtered": "DIVIDE_BY_ZERO",
    "groups beyond max_groups are evicted, the first seen "
    "stay": "The setting max_groups is planned and not yet run",
    "for sessions max_groups limits the keys that have an open "
    "session": "The setting max_groups is planned and not yet run",
    "a repeated dedup_key is a duplicate within the horizon, in the same "
    "batch, in a later one and after a restart": "The setting dedup_key is planned and not yet run",
    "a quiet shard keeps its last time while no idle timeout is "
    "set": "The setting shard is planned and not yet run",
    "an idle shard leaves the minimum, and comes back without moving the "
    "watermark back": "The setting shard is planned and not yet run",
    "when all shards are idle the watermark holds, which is the "
    "default": "The setting shard is planned and not yet run",
}
