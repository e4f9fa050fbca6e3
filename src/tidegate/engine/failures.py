"""The errors of a started query that fails, and of calls to its handle that are refused."""

from __future__ import annotations

from tidegate.connectors.kafka_failures import kafka_failure
from tidegate.connectors.transient import transient_cause
from tidegate.errors import ConfigError, ExecutionError, TidegateError
from tidegate.spark.failures import is_of_spark, reason_of, text_of

_LONGEST_SECONDS = 1e15


def in_a_batch(failure: BaseException) -> TidegateError:
    """Return the error for a failure in a step."""
    if isinstance(failure, TidegateError):
        failure.transient = transient_cause(failure)
        return failure
    what, mend = _explained(failure) or (
        reason_of(failure),
        "The batch has not been committed. Fix the cause and restart the query: it completes the "
        "batch and replaces what the batch has written.",
    )
    error = ExecutionError(f"the query stopped in a batch: {what}\n\n{mend}")
    error.__cause__ = failure
    error.transient = transient_cause(failure)
    error.transform = getattr(failure, "transform", None)
    return error


def outside_of_batches(failure: Exception | None) -> TidegateError | None:
    """Return the error for a failure of Spark between steps, mostly in a source."""
    if failure is None:
        return None
    what, mend = _explained(failure) or (
        reason_of(failure),
        "Fix the cause and restart the query: it continues after the last batch.",
    )
    error = ExecutionError(f"the query stopped: {what}\n\n{mend}")
    error.__cause__ = failure
    error.transient = transient_cause(failure)
    return error


def _explained(failure: BaseException) -> tuple[str, str] | None:
    """What a connector says of a failure and what to do, None if it does not know it."""
    return kafka_failure(text_of(failure)) if is_of_spark(failure) else None


def refused_inside(what: str) -> ExecutionError:
    """Return the error for a call that would wait for the batch from which it is made."""
    return ExecutionError(
        f"a sink or on_batch cannot {what}, because the batch that called it would have to end "
        "first\n\nCall run.stop() there, which ends the query after the batch; flush, drain or "
        "wait elsewhere."
    )


def check_timeout(timeout: object) -> None:
    """Refuse anything but a number of seconds."""
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 <= float(str(timeout)) < _LONGEST_SECONDS):
        raise ConfigError(
            f"timeout is {timeout!r:.80}, it must be a number of seconds, 0 or more\n\n"
            "Give e.g. timeout=10, or leave it out to wait for the end."
        )
