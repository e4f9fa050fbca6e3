"""One line for a failure in Spark: the last cause, without Java's class names and stacks."""

from __future__ import annotations

import re

from tidegate.environment import without_values

# The class names that Java and Hadoop put before a message, and what marks Spark's additions to it.
_JAVA_CLASS = re.compile(r"^(?:[a-z][\w$]*\.)+[A-Z][\w$]*: ")
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_CALL = re.compile(r"^An error occurred while calling [^\n]*\n: ")
_TASK = re.compile(r"^Job aborted due to stage failure: .*? executor [^)]*\): ", re.DOTALL)
_ENDS = re.compile(
    r"\n\s*at |JVM stacktrace:|\s*SQLSTATE: |\n== |; line \d+ pos \d+| \(exists=|\n['+]"
)


def is_of_spark(error: BaseException) -> bool:
    """Whether an error came from Spark or from its Java side."""
    return type(error).__module__.startswith(("pyspark.errors", "py4j"))


def reason_of(error: BaseException) -> str:
    """Return why something failed: one line of Spark's error, or the text of any other error.

    It shows no values of ``environment``.
    """
    return without_values(_reason_of(error))


def _reason_of(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    if not is_of_spark(error):
        said = str(error).strip()
        return f"{type(error).__name__}: {said}" if said else type(error).__name__
    text = str(error)
    causes = [_one_line(cause) for cause in _CAUSE.findall(text)]
    cause = getattr(error, "_cause", None)
    while cause is not None:
        causes.append(_one_line(str(cause)))
        cause = getattr(cause, "_cause", None)
    telling = [each for each in causes if each]
    return telling[-1] if telling else _one_line(text) or type(error).__name__


def _one_line(text: str) -> str:
    """Return the message of an error without the classes, the stack and the tree around it."""
    for pattern in (_CALL, _JAVA_CLASS, _TASK, _JAVA_CLASS):
        text = pattern.sub("", text.strip())
    message = _ENDS.split(text, maxsplit=1)[0]
    # A class name alone does not say why.
    is_class = re.fullmatch(r"(?:[a-z][\w$]*\.)+[A-Z][\w$]*", message)
    return "" if is_class else " ".join(message.split())


def text_of(error: BaseException) -> str:
    """Return all that Spark says of a failure: its message, its causes and their classes."""
    texts = []
    found: object = error
    while found is not None:
        texts.append(str(found))
        found = getattr(found, "_cause", None)
    return without_values("\n".join(texts))
