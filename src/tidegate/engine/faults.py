"""Fault points: named places between two writes of a batch where a test can kill the process.

``TIDEGATE_FAULT=after_segment:3`` kills this process with SIGKILL when epoch 3 reaches that place.
Without the variable a fault point costs one lookup in the environment. A test in the same process
may replace ``reached`` with a function of its own.
"""

from __future__ import annotations

import os
import signal

# In the order in which a batch reaches them.
FAULT_POINTS = (
    "before_segment",
    "after_segment",
    "after_taken",
    "after_intent",
    "after_results",
    "after_side_output",
    "after_merge",
    "after_manifest",
    "after_clean_up",
)


def fault_point(name: str, epoch: int) -> None:
    """Kill the process here if the environment says so."""
    assert name in FAULT_POINTS, f"{name} is not a fault point"
    reached(name, epoch)


def reached(name: str, epoch: int) -> None:
    """Kill this process if the environment names this fault point."""
    if f"{name}:{epoch}" == os.environ.get("TIDEGATE_FAULT"):
        os.kill(os.getpid(), signal.SIGKILL)
