"""Signals that end a run: the first asks, the second ends; Spark is started deaf to SIGTERM."""

import signal
import subprocess
import sys

import pytest


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


STARTS = """
import os, signal, subprocess, sys, time
from tidegate.cli.signals import Signals, StopRequested

def as_spark_does():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

def start(*command):
    return subprocess.run(command, check=False, preexec_fn=as_spark_does)

signals = Signals()
with signals.watched():
    try:
        with signals.starting_java():
            start("sh", "-c", "kill $$; echo ignored")
            {java}
            print("java", flush=True)
        with signals.starting_spark():
            {spark}
            print("spark", flush=True)
    except StopRequested:
        print("ended" if signals.asked.is_set() else "why?", flush=True)
    start("sh", "-c", "kill $$; echo ignored again")
    {after}
"""


def starting(java: str = "", spark: str = "", after: str = "") -> tuple[int, list[str]]:
    """What a process prints that is told something while it starts Spark, and how it ends."""
    script = STARTS.format(java=java or "pass", spark=spark or "pass", after=after or "pass")
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stderr == ""
    return ended.returncode, ended.stdout.splitlines()


TERM, INT = (f"os.kill(os.getpid(), signal.{number})" for number in ("SIGTERM", "SIGINT"))


def test_java_is_started_so_that_it_ignores_sigterm_and_no_other_process_is():
    assert starting() == (0, ["ignored", "java", "spark"])


@pytest.mark.parametrize("tell", [TERM, INT])
def test_the_first_signal_ends_the_start_of_spark_but_not_that_of_java(tell):
    assert starting(java=tell) == (0, ["ignored", "java", "ended"])
    assert starting(spark=f"{tell}; time.sleep(60)") == (0, ["ignored", "java", "ended"])


@pytest.mark.parametrize("tell", [TERM, INT])
def test_a_second_signal_ends_a_start_at_once(tell):
    code, printed = starting(java=f"{tell}; {tell}; time.sleep(60)")
    assert printed == ["ignored"]
    assert code == (-signal.SIGTERM if tell is TERM else -signal.SIGINT)


def test_a_signal_after_the_start_of_spark_only_asks():
    ask = f"{TERM}; print('asked' if signals.asked.is_set() else 'lost')"
    assert starting(after=ask) == (0, ["ignored", "java", "spark", "asked"])


def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_stack_trace():
    interrupted = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Loading(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "tidegate.cli":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Loading())
from tidegate.__main__ import start
start()
"""
    ended = subprocess.run(
        [sys.executable, "-c", interrupted], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
