"""Starting Spark on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError
from tidegate.spark.java import ensure_java, quiet_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # How many generated classes Spark keeps compiled. A query has up to 100; Spark's default is
    # four parts of 25, chosen by hash, and classes that do not fit are compiled in every batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
}

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(cores: str | int = "*", options: Mapping[str, str] | None = None) -> SparkSession:
    """Return a Spark session on this machine: the running one, or a new one.

    Args:
        cores: how many cores, ``*`` for all.
        options: Spark options, which take precedence over ours.

    Raises:
        ConfigError: an argument is wrong.
        ExecutionError: there is no Java 17 or later.
    """
    _check(cores, options)
    # Otherwise the driver and the workers may find different Pythons.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]").appName("tidegate")
    settings = {**_DEFAULTS, **(options or {})}
    # Java uses the last of two equal options, so the user's options come after ours.
    ours = f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"'
    settings[JAVA_OPTIONS] = f"{ours} {settings.get(JAVA_OPTIONS, '')}".strip()
    for name, value in settings.items():
        # Spark spells a bool in lower case.
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else value)
    with quiet_java():
        session = builder.getOrCreate()
    _load_generator(session)
    return session


def _check(cores: object, options: object) -> None:
    is_number = isinstance(cores, int) and not isinstance(cores, bool)
    if not (is_number or isinstance(cores, str)) or not re.fullmatch(r"\*|[1-9]\d*", str(cores)):
        raise ConfigError(
            f"cores is {cores!r:.80}, it must be a whole number greater than 0, or *\n\n"
            'Give e.g. cores=4, or cores="*" for all.'
        )
    example = 'Give e.g. options={"spark.sql.shuffle.partitions": "4"}.'
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"options is {options!r:.80}, it must be a dict\n\n{example}")
    for name, value in (options or {}).items():
        if not isinstance(name, str) or not name.startswith("spark."):
            raise ConfigError(f"{name!r:.80} is not an option of Spark\n\n{example}")
        if not isinstance(value, (str, int, float)):
            raise ConfigError(
                f"options: {name} is {value!r:.80}, it must be text or a number\n\n{example}"
            )


def _load_generator(session: SparkSession) -> None:
    """Make Spark read the size of its class cache now, while the session's options are visible.

    Spark reads it once per JVM, when code is first generated. That could be on a thread without a
    session (``collect_list`` in an observation, after a task), where Spark would use its default.
    """
    jvm: Any = session._jvm
    generator = jvm.org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
    generator.DEFAULT_JVM_HUGE_METHOD_LIMIT()


def current_session() -> SparkSession:
    """Return the active session of this thread, else the default one; Spark must be running."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    context = SparkContext._active_spark_context
    assert context is not None, "Spark is running"
    return SparkSession(context)
