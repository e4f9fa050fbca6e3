"""Signals that end a run: the first asks, the second ends; Spark is started deaf to SIGTERM."""

import os
import signal
import subprocess
import sys

from tidegate.cli.signals import Signals


def test_a_second_signal_ends_the_process_at_once():
    waits = """
import time
from tidegate.cli.signals import Signals

signals = Signals()
with signals.watched():
    print("ready", flush=True)
    signals.asked.wait()
    print("asked", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == -signal.SIGINT
    process.stdout.close()


def test_a_signal_that_comes_while_processes_are_started_is_taken_afterwards():
    signals = Signals()
    with signals.watched():
        with signals.kept_from_processes():
            subprocess.run(["kill", str(os.getpid())], check=True)
            ignoring = subprocess.run(
                ["sh", "-c", "kill $$; echo on"], capture_output=True, text=True, check=False
            )
            assert not signals.asked.is_set()
        assert signals.asked.wait(timeout=10)
    assert ignoring.stdout == "on\n"
