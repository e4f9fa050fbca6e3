"""Spark Connect, which is refused: a client of it has no driver for Tidegate to work in.

Its packages may not be installed, so its objects are known by the modules of their classes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidegate.errors import ConfigError

_MODULE = "pyspark.sql.connect"
REMOTE, API_MODE = "spark.remote", "spark.api.mode"
MEND = (
    "To run on a cluster, start the program with spark-submit, or name the cluster's master, e.g. "
    'spark.master = "spark://host:7077".'
)
WHY = "Tidegate works in the driver of Spark, and a client of Spark Connect has none"


def is_remote(value: object) -> bool:
    """Return whether a session or a DataFrame is one of Spark Connect."""
    modules = (kind.__module__ for kind in type(value).__mro__)
    return any(module == _MODULE or module.startswith(f"{_MODULE}.") for module in modules)


def refuse_remote(value: object, name: str) -> None:
    """Refuse an argument that is a session or a DataFrame of Spark Connect.

    Raises:
        ConfigError: it is one.
    """
    if is_remote(value):
        raise ConfigError(
            f"{name} is a {type(value).__name__} of Spark Connect; {WHY}\n\n"
            f"Use a session that is not remote, e.g. tidegate.local_session(). {MEND}"
        )


def refuse_connect(options: Mapping[str, str]) -> None:
    """Refuse to start a session that would be one of Spark Connect.

    Args:
        options: the options of the session.

    Raises:
        ConfigError: an option, a variable of the environment or an earlier session makes it one.
    """
    found = remote_option(options)
    if found is not None:
        raise ConfigError(f"{found} asks for Spark Connect; {WHY}\n\nLeave it out. {MEND}")
    remote, mode = os.environ.get("SPARK_REMOTE"), os.environ.get("SPARK_API_MODE", "")
    if remote is not None or mode.lower() == "connect":
        name, value = ("SPARK_REMOTE", remote) if remote is not None else ("SPARK_API_MODE", mode)
        raise ConfigError(
            f"{name}={_shown(value or '')} in the environment asks for Spark Connect; {WHY}\n\n"
            f"Unset {name}. {MEND}"
        )
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        raise ConfigError(
            f"this process has a session of Spark Connect, so Spark gives it no other; {WHY}\n\n"
            f"Use another process, or make no Spark Connect session in this one. {MEND}"
        )


def remote_option(options: Mapping[str, str]) -> str | None:
    """Return the option that asks for Spark Connect, with its value; None if none does."""
    remote, master = options.get(REMOTE), options.get("spark.master", "")
    if remote is not None:
        return f'{REMOTE} = "{_shown(remote)}"'
    if options.get(API_MODE, "").lower() == "connect":
        return f'{API_MODE} = "{options[API_MODE]}"'
    return f'spark.master = "{_shown(master)}"' if master.startswith("sc:") else None


def _shown(url: str) -> str:
    """Return the address of a server without its parameters, one of which can be a token."""
    return url.partition(";")[0]
