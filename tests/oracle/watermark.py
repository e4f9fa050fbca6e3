"""The watermark of a stream: shards, idle ones, and the clock."""

from __future__ import annotations


class Watermark:
    """The least, over the active shards, of the greatest event time minus the lag."""

    def __init__(
        self, lag: int, idle_timeout: int | None, *, advance: bool, is_clock: bool
    ) -> None:
        self.is_clock = is_clock
        self.lag = lag
        self.idle_timeout = idle_timeout
        self.advance_when_idle = advance
        self.shards: dict[str, tuple[int, int]] = {}
        self.value: int | None = None

    def see(self, shard: str, time: int, clock: int) -> None:
        greatest = max(time, self.shards[shard][0]) if shard in self.shards else time
        self.shards[shard] = greatest, clock

    def own(self, shard: str) -> int | None:
        """The watermark of a shard by itself; None before its first row."""
        return self.shards[shard][0] - self.lag if shard in self.shards else None

    def advance(self, clock: int) -> None:
        """Follow the shards, or the clock: all rows up to it have come, so W is just after."""
        if self.is_clock:
            self.raise_to(clock + 1)
        if not self.shards:
            return
        active = [
            greatest - self.lag
            for greatest, last in self.shards.values()
            if self.idle_timeout is None or clock - last < self.idle_timeout
        ]
        if active:
            self.raise_to(min(active))
        elif self.advance_when_idle:
            self.raise_to(clock - self.lag)

    def raise_to(self, value: int) -> None:
        self.value = value if self.value is None else max(self.value, value)
