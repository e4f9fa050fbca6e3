"""Starting Spark on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def local_session(cores: str | int = "*", options: Mapping[str, str] | None = None) -> SparkSession:
    """Return a Spark session on this machine, the one that runs or a new one.

    Args:
        cores: how many cores, ``*`` for all.
        options: Spark options that go before ours.

    Raises:
        ConfigError: there is no Java 17 or newer.
    """
    # Otherwise drivers and workers may find different Pythons.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("tidegate")
    for name, value in {**_DEFAULTS, **(options or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
