"""The environment of a process that starts Spark for a few batches."""

from __future__ import annotations

import os

# Such a JVM ends before optimized code would pay off.
SHORT_LIVED = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
