"""The environment of a process that starts Spark for a few batches."""

from __future__ import annotations

import os

# Its JVM does not live to see code that is compiled well.
SHORT_LIVED = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
