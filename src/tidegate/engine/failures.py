"""What a user is told when a started query fails, or a call of its handle cannot be done."""

from __future__ import annotations

from tidegate.errors import ConfigError, ExecutionError, TidegateError
from tidegate.spark.failures import reason_of

_LONGEST_SECONDS = 1e15


def in_a_batch(failure: Exception) -> TidegateError:
    """Return what a user is told of a failure in a step."""
    if isinstance(failure, TidegateError):
        return failure
    error = ExecutionError(
        f"the query stopped in a batch: {reason_of(failure)}\n\nThe batch is not part of the "
        "state. Mend the cause and start the query again: the batch is run again, and what it has "
        "written is replaced."
    )
    error.__cause__ = failure
    return error


def outside_of_batches(failure: Exception | None) -> TidegateError | None:
    """Return what a user is told of a failure of Spark between the steps, of a source mostly."""
    if failure is None:
        return None
    error = ExecutionError(
        f"the query stopped: {reason_of(failure)}\n\nMend the cause and start the query again: it "
        "goes on after the last batch."
    )
    error.__cause__ = failure
    return error


def refused_inside(what: str) -> ExecutionError:
    """Return the refusal of a call that waits for the batch that it comes from."""
    return ExecutionError(
        f"a sink or on_batch cannot {what}, because the batch that calls it would have to end "
        "first\n\nCall run.stop() there, which asks the query to end after the batch; flush, drain "
        "or wait elsewhere."
    )


def check_timeout(timeout: object) -> None:
    """Refuse what is no number of seconds."""
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 <= float(str(timeout)) < _LONGEST_SECONDS):
        raise ConfigError(
            f"timeout is {timeout!r:.80}, it must be a number of seconds, 0 or more\n\n"
            "Give e.g. timeout=10, or leave it out to wait for the end."
        )
