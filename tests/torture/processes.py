"""A bad week with real deaths: processes that are killed at any moment, and two at a time."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from short_lived import SHORT_LIVED

from . import stream

if TYPE_CHECKING:
    from .stream import Place
    from .week import Leg

ROOT = Path(__file__).parents[2]


@dataclass(slots=True, kw_only=True)
class KilledProcesses:
    """The disturbed run, with a process for each start; ``told`` counts what was done."""

    place: Place
    kind: str
    seed: int
    chance: random.Random
    told: Counter[str] = field(default_factory=Counter)

    def go(self, legs: list[Leg]) -> None:
        """Go through the legs; each ends in one process that is left alone."""
        for leg in legs:
            copied = False
            waiting = list(leg.files)
            while waiting:
                for _ in range(min(len(waiting), self.chance.randint(1, 3))):
                    stream.write_file(self.place.input, waiting.pop(0), self.seed)
                copied = self._copy_or_roll_back(copied)
                self._kill_some(leg)
            shutil.rmtree(self.place.folder / "saved", ignore_errors=True)
            if leg.end != "stop":
                self._kill(self._start(leg, leg.end))
            ended = self._start(leg, leg.end)
            output, _ = ended.communicate(timeout=300)
            assert ended.returncode == 0, f"seed {self.seed}: {output.decode()[-3000:]}"

    def _kill_some(self, leg: Leg) -> None:
        first = self._start(leg, self.chance.choice(["live", "stop"]))
        if self.chance.random() < 0.4:
            self.told["second processes"] += 1
            self._kill(self._start(leg, self.chance.choice(["live", "stop"])))
        self._kill(first)

    def _start(self, leg: Leg, mode: str) -> subprocess.Popen[bytes]:
        self.told["starts"] += 1
        cores = str(self.chance.randint(1, 3))
        job = [str(self.place.folder), self.kind, leg.lag, leg.lateness, cores, mode]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.torture.job", *job],
            cwd=ROOT,
            env=SHORT_LIVED,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its JVM after a while, at whatever moment that is."""
        try:
            process.communicate(timeout=self.chance.uniform(4, 25))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.told["kills"] += 1

    def _copy_or_roll_back(self, copied: bool) -> bool:
        saved = self.place.folder / "saved"
        if not copied and self.place.checkpoint.exists() and self.chance.random() < 0.3:
            shutil.copytree(self.place.checkpoint, saved)
            return True
        if copied and self.chance.random() < 0.5:
            shutil.rmtree(self.place.checkpoint)
            saved.rename(self.place.checkpoint)
            self.told["rollbacks"] += 1
            return False
        return copied
