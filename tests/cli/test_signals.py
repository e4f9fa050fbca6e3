"""Signals that end a run: the first asks, the second ends; Spark is started deaf to SIGTERM."""

import signal
import subprocess
import sys


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
    # In a process of its own: another thread would take the signal, and ignore it.
    starts = """
import os, subprocess
from tidegate.cli.signals import Signals

signals = Signals()
with signals.watched():
    with signals.kept_from_processes():
        subprocess.run(["kill", str(os.getpid())], check=True)
        subprocess.run(["sh", "-c", "kill $$; echo ignored"], check=False)
        print("asked too early" if signals.asked.is_set() else "kept", flush=True)
    print("asked" if signals.asked.wait(timeout=10) else "lost", flush=True)
"""
    ended = subprocess.run(
        [sys.executable, "-c", starts], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stdout.splitlines() == ["ignored", "kept", "asked"]
