"""Whether the process that claimed a checkpoint still runs."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.processes import is_running


def now() -> datetime:
    return datetime.now(UTC)


def test_a_process_runs_until_it_has_ended() -> None:
    assert is_running(os.getppid(), now())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_running(child.pid, now())
    child.communicate(b"\n")
    assert not is_running(child.pid, now())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process started")
def test_a_later_process_with_the_same_number_is_another_one() -> None:
    assert not is_running(os.getpid(), now() - timedelta(days=10_000))


@pytest.mark.skipif(sys.platform != "linux", reason="as above")
def test_a_process_that_has_ended_and_was_not_waited_for_does_not_run() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(child.pid, now())
    child.wait()
