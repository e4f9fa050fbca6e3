"""The message of a failure, as it ends a command."""

from __future__ import annotations

import traceback

from tidegate.environment import without_values
from tidegate.errors import TidegateError


def message_of(error: BaseException) -> str:
    """Return what to tell the user of an error; it shows no value of a variable."""
    return without_values(_message(error))


def stack_of(error: BaseException) -> str:
    """Return the stack of an error, for ``--verbose``; it shows no value of a variable."""
    return without_values("".join(traceback.format_exception(error)))


def _message(error: BaseException) -> str:
    if isinstance(error, TidegateError):
        return str(error)
    from tidegate.spark.failures import is_of_spark, reason_of

    if is_of_spark(error):
        return f"Spark: {reason_of(error)}"
    return (
        f"tidegate itself failed: {reason_of(error)}\n\n"
        "This is a bug. Run the command with tidegate --verbose .. and report what it prints."
    )
