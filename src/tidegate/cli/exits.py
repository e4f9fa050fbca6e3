"""Exit codes: the one table, and the code of each failure.

A supervisor can act on them: only what may pass by itself (``TRY_AGAIN``) is worth a restart by
another clock than a person's. systemd shows 75 as TEMPFAIL.
"""

from __future__ import annotations

from dataclasses import dataclass

DONE = 0
FAILED = 1
MISUSED = 2
TRY_AGAIN = 75
INTERRUPTED = 130
TERMINATED = 143


@dataclass(frozen=True, slots=True)
class ExitCode:
    """An exit code of the command line, and what it means."""

    code: int
    meaning: str


EXIT_CODES = (
    ExitCode(DONE, "success; `run`: also after Ctrl-C or SIGTERM, with the current batch finished"),
    ExitCode(
        FAILED, "something is wrong and stays so until somebody mends it; standard error says what"
    ),
    ExitCode(MISUSED, "the command does not exist, or an option is wrong"),
    ExitCode(
        TRY_AGAIN,
        "`run`: a server could not be reached and the restarts, if any, are used up; start again",
    ),
    ExitCode(
        INTERRUPTED,
        "Ctrl-C; `run`: the second one, which stops it inside a batch that the next start repeats",
    ),
    ExitCode(TERMINATED, "SIGTERM, likewise"),
)


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a command that ends with an error."""
    from tidegate.connectors.transient import transient_cause

    return FAILED if transient_cause(error) is None else TRY_AGAIN
