"""Samples of results and of side output that manifests hold, as the page shows them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidegate.state.manifest import Manifest

# Rows of each that are remembered, the newest ones.
MOST_SAMPLED = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRow:
    """A row that a step wrote; ``text`` is JSON that may be cut short."""

    epoch: int
    clock_us: int | None
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return it for the page: its values by column, or its text if that was cut short."""
        facts: dict[str, Any] = {"epoch": self.epoch, "clock_us": self.clock_us}
        try:
            row = json.loads(self.text, parse_constant=str)
        except ValueError:
            row = None
        if isinstance(row, dict):
            return facts | {"row": {name: _shown(value) for name, value in row.items()}}
        return facts | {"text": self.text}


@dataclass(slots=True)
class Samples:
    """The newest rows of a transform that were sampled, oldest first."""

    results: deque[SampledRow] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLED))
    side_output: deque[SampledRow] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLED))

    def add(self, manifest: Manifest) -> None:
        """Add those of a newer manifest."""
        if manifest.step is not None:
            self.results.extend(_rows(manifest, manifest.step.results))
            self.side_output.extend(_rows(manifest, manifest.step.side_output))


def _rows(manifest: Manifest, texts: Iterable[str]) -> Iterable[SampledRow]:
    return (
        SampledRow(epoch=manifest.epoch, clock_us=manifest.clock_us, text=text) for text in texts
    )


def _shown(value: Any) -> str | None:  # noqa: ANN401 - a value of JSON
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
