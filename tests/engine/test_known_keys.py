"""Which keys a batch knows of while the step before it is still being finished."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.engine import intake
from tidegate.engine.clock import Leap
from tidegate.engine.windows.operator import Arrival
from tidegate.state.manifest import Manifest, Segment, Tables

FORGOTTEN = Segment(name="1-aa-keys", first_us=1, last_us=1, rows=1)
KNOWN = Segment(name="2-aa-keys", first_us=2, last_us=2, rows=1)


class Seen(Exception):
    """Ends a step once its keys are known."""


@pytest.mark.parametrize(("leap", "keys"), [(None, (FORGOTTEN, KNOWN)), (Leap.RETURNED, (KNOWN,))])
def test_keys_that_the_step_before_forgets_stay_forgotten_when_the_clock_goes_back(
    monkeypatch: pytest.MonkeyPatch, leap: Leap | None, keys: tuple[Segment, ...]
) -> None:
    def state(*segments: Segment) -> Manifest:
        tables = Tables(duplicates=segments)
        return Manifest(epoch=2, batch_id=2, fingerprint={}, plan_id="p", clock_us=9, tables=tables)

    def ingest(arrival: Arrival, *_: object) -> None:
        assert arrival.early.duplicates == keys
        raise Seen

    monkeypatch.setattr(intake, "with_clock", lambda before, *_: (before, leap))
    monkeypatch.setattr(intake, "ingest", ingest)
    rows: Any = object()
    batch = intake.Batch(batch_id=3, rows=rows, clock_us=5)
    job: Any = SimpleNamespace(plan=None)
    io: Any = None
    with pytest.raises(Seen):
        intake.take_in(state(FORGOTTEN, KNOWN), lambda: state(KNOWN), batch, job, io)
