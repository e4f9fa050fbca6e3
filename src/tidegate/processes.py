"""Processes of this machine."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

# The times of a claim and of a process are rounded to seconds.
_ROUNDED = timedelta(seconds=2)


def is_running(pid: int, since: datetime) -> bool:
    """Return whether a process runs that was running at a time.

    A process with the number that started later is another one; where that cannot be found out, it
    counts as the same.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # It runs for another user.
    started = _started(pid)
    return started is None or started <= since + _ROUNDED


def _started(pid: int) -> datetime | None:
    """When a process started; None if Linux does not tell. One that has ended counts as new."""
    try:
        # The name of the program, in parentheses, may have blanks.
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        booted = next(int(line.split()[1]) for line in lines if line.startswith("btime"))
    except (OSError, ValueError, StopIteration):
        return None
    if facts[0] == "Z":
        return datetime.max.replace(tzinfo=UTC)
    seconds = int(facts[19]) / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(booted, UTC) + timedelta(seconds=seconds)
