"""Opening the sinks of a query: what stops it, and what does not."""

from __future__ import annotations

import pytest

from tidegate import ConfigError
from tidegate.engine.job import Outlets


class Opening:
    """A sink that fails when it is opened, or takes note of it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.opened: list[tuple[str, int | None]] = []

    def open(self, owner, newest_epoch):
        if self.error is not None:
            raise self.error
        self.opened.append((owner, newest_epoch))

    def write(self, frame, epoch):
        """Write nothing."""


class Plain:
    """A sink without an owner."""

    def write(self, frame, epoch):
        """Write nothing."""


def test_each_sink_is_opened_once_and_one_without_an_owner_is_left_alone():
    results, shared = Opening(), Opening()
    Outlets(results=results, side={"late": shared, "error": shared}).open("a1", 7)
    Outlets(results=Plain(), side={"late": Plain()}).open("a1", None)
    assert results.opened == shared.opened == [("a1", 7)]


def test_a_side_sink_that_cannot_be_opened_stops_nothing_and_is_told(caplog):
    results, later = Opening(), Opening()
    side = {"late": Opening(OSError("disk full")), "error": later}
    Outlets(results=results, side=side).open("a1", None)
    assert later.opened == [("a1", None)]
    assert "a side sink could not be opened: disk full" in caplog.text


def test_results_that_cannot_be_opened_and_a_target_of_another_owner_stop_the_query():
    with pytest.raises(OSError, match="disk full"):
        Outlets(results=Opening(OSError("disk full"))).open("a1", None)
    with pytest.raises(ConfigError):
        Outlets(results=Opening(), side={"late": Opening(ConfigError("another"))}).open("a1", None)
