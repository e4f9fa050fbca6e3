"""A bad week: a random walk of failures over a schedule of files, restarts and changed settings.

``Schedule.of(seed)`` says which files come, when lag and lateness change, and how each leg of the
run ends. ``run_calm`` goes through it undisturbed, ``run_badly`` with everything that can go wrong
on the way. Both must give the same results and the same side output.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest.mock import patch

from tidegate.engine import faults
from tidegate.errors import TidegateError
from tidegate.state.files import LocalFiles

from . import stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tidegate import FileSink

    from .stream import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A part of the week: files that come under one setting, and how it ends."""

    files: range
    lag: str
    lateness: str
    end: str  # stop, flush or drain

    @property
    def settings(self) -> dict[str, object]:
        return {"watermark_lag": self.lag, "allowed_lateness": self.lateness}


def schedule(seed: int, legs: int) -> list[Leg]:
    """Return the legs of a week; the last one ends in a drain."""
    chance = random.Random(f"schedule {seed}")
    made: list[Leg] = []
    first = 0
    for number in range(legs):
        last = first + chance.randint(2, 4)
        made.append(
            Leg(
                files=range(first, last),
                lag=chance.choice(["2s", "5s", "9s"]),
                lateness=chance.choice(["0s", "0s", "4s"]),
                end="drain" if number == legs - 1 else chance.choice(["stop", "flush", "drain"]),
            )
        )
        first = last
    return made


def run_calm(spark: SparkSession, place: Place, kind: str, seed: int, legs: list[Leg]) -> None:
    """Go through the legs undisturbed."""
    for leg in legs:
        for number in leg.files:
            stream.write_file(place.input, number, seed)
        run = stream.start(spark, place, kind, once=True, settings=leg.settings)
        run.await_termination()
        run.stop(flush=leg.end == "flush", drain=leg.end == "drain")


class Killed(Exception):
    """Stands for the death of the process: nothing that comes after it is done."""


@dataclass(slots=True, kw_only=True)
class BadWeek:
    """The disturbed run. ``told`` counts what was done, for the report."""

    spark: SparkSession
    place: Place
    kind: str
    seed: int
    chance: random.Random
    told: Counter[str] = field(default_factory=Counter)

    def go(self, legs: list[Leg]) -> None:
        """Go through the legs; each ends in one clean run."""
        for leg in legs:
            copy: int | None = None
            waiting = list(leg.files)
            while waiting:
                for _ in range(min(len(waiting), self.chance.randint(1, 2))):
                    stream.write_file(self.place.input, waiting.pop(0), self.seed)
                copy = self._roll_back_or_copy(copy)
                self.chance.choice(
                    [
                        self._once,
                        self._live,
                        self._killed,
                        self._killed,
                        self._sink_fails,
                        self._disk_fails,
                    ]
                )(leg)
            self._end(leg)

    def _start(self, leg: Leg, *, once: bool, **options: object) -> stream.tg.Run:
        self.told["starts"] += 1
        partitions = self.chance.choice(["1", "2", "3"])
        self.spark.conf.set("spark.sql.shuffle.partitions", partitions)
        return stream.start(
            self.spark, self.place, self.kind, once=once, settings=leg.settings, **options
        )

    def _once(self, leg: Leg) -> None:
        run = self._start(leg, once=True)
        run.await_termination()
        run.stop()

    def _live(self, leg: Leg) -> None:
        """Run until a batch has been seen, or there is none, and stop in the middle of things."""
        seen = threading.Event()
        run = self._start(leg, once=False, on_batch=lambda _: seen.set())
        seen.wait(timeout=self.chance.choice([0.2, 1.5]))
        run.stop()
        self.told["stops of a live run"] += 1

    def _killed(self, leg: Leg) -> None:
        point = self.chance.choice(faults.FAULT_POINTS)
        with self._kill_at(point), suppress(TidegateError, Killed):
            run = self._start(leg, once=True)
            with suppress(TidegateError, Killed):
                run.await_termination()
            run.stop()

    def _sink_fails(self, leg: Leg) -> None:
        run = self._start(
            leg,
            once=True,
            wrap=lambda sink: FailsOnce(sink, after=self.chance.random() < 0.5),
        )
        with suppress(TidegateError, Killed):
            run.await_termination()
        with suppress(TidegateError, Killed):
            run.stop()
        self.told["failing sinks"] += 1

    def _disk_fails(self, leg: Leg) -> None:
        """One of our calls of the file system fails once, before or after it has done its work."""
        name = self.chance.choice(["put_if_absent", "read", "entries", "make_folder", "delete"])
        failing = _FailsOnce(
            call=getattr(LocalFiles, name),
            at=self.chance.randint(1, 6),
            after=self.chance.random() < 0.3,
        )
        with patch.object(LocalFiles, name, lambda *given: failing(*given)):
            with suppress(TidegateError, Killed):
                run = self._start(leg, once=True)
                with suppress(TidegateError, Killed):
                    run.await_termination()
                run.stop()
        self.told[f"failing {name}" if failing.at <= 0 else "calls that came not so far"] += 1

    def _roll_back_or_copy(self, copy: int | None) -> int | None:
        """Copy the whole checkpoint, or put an earlier copy in its place."""
        saved = self.place.folder / "saved"
        if copy is None and self.place.checkpoint.exists() and self.chance.random() < 0.4:
            shutil.copytree(self.place.checkpoint, saved, dirs_exist_ok=False)
            return 1
        if copy is not None and self.chance.random() < 0.5:
            shutil.rmtree(self.place.checkpoint)
            saved.rename(self.place.checkpoint)
            self.told["rollbacks"] += 1
            return None
        return copy

    def _end(self, leg: Leg) -> None:
        shutil.rmtree(self.place.folder / "saved", ignore_errors=True)
        if leg.end != "stop" and self.chance.random() < 0.7:
            run = self._start(leg, once=True)
            run.await_termination()
            with (
                self._kill_at(self.chance.choice(faults.FAULT_POINTS)),
                suppress(TidegateError, Killed),
            ):
                run.stop(flush=leg.end == "flush", drain=leg.end == "drain")
        run = self._start(leg, once=True)
        run.await_termination()
        run.stop(flush=leg.end == "flush", drain=leg.end == "drain")

    def _kill_at(self, point: str) -> AbstractContextManager[object]:
        kill = _Kill(point=point, told=self.told, skip=self.chance.randint(0, 1))
        return patch.object(faults, "reached", kill.reached)


@dataclass(slots=True, kw_only=True)
class _FailsOnce:
    """A call that fails the n-th time, and works before and after that."""

    call: Callable[..., object]
    at: int
    after: bool

    def __call__(self, *given: object) -> object:
        self.at -= 1
        if self.at:
            return self.call(*given)
        if self.after:
            self.call(*given)
        raise OSError(5, "Input/output error")


@dataclass(slots=True, kw_only=True)
class _Kill:
    """Raises at a fault point, after some times of it that are let through."""

    point: str
    told: Counter[str]
    skip: int

    def reached(self, name: str, epoch: int) -> None:
        if name != self.point:
            return
        if self.skip:
            self.skip -= 1
            return
        self.told[f"killed {name}"] += 1
        raise Killed(f"{name} in epoch {epoch}")


@dataclass(slots=True)
class FailsOnce:
    """A sink whose first write fails, before or after the rows were written."""

    sink: FileSink
    after: bool
    failed: bool = False

    def open(self, owner: str, newest_epoch: int | None) -> None:
        self.sink.open(owner, newest_epoch)

    def write(self, frame: DataFrame, epoch: int) -> None:
        if self.failed:
            self.sink.write(frame, epoch)
            return
        self.failed = True
        if self.after:
            self.sink.write(frame, epoch)
        raise OSError(28, "No space left on device")
