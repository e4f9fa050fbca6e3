"""The reason of a failure in Spark is one line."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from tidegate.spark.failures import reason_of

STACK = "\n\tat org.apache.spark.X.y(X.scala:1)\n\tat java.base/java.lang.Thread.run(T.java:8)"
CALL = "An error occurred while calling o192.save.\n: "


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no\nsuch"), "ValueError: no\nsuch"),
        (KeyError(), "KeyError"),
        (FileNotFoundError(2, "No such file", "/x/y"), "/x/y: no such file"),
        (
            Py4JError(
                f"{CALL}java.io.IOException: Mkdirs failed to create file:/x (exists=false){STACK}"
            ),
            "Mkdirs failed to create file:/x",
        ),
        (
            Py4JError(
                f"{CALL}org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 "
                "in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in stage 3.0 "
                f"(TID 3) (10.0.0.1 executor driver): java.io.IOException: disk full{STACK}"
            ),
            "disk full",
        ),
        (
            Py4JError(
                f"{CALL}java.lang.RuntimeException: java.lang.ClassNotFoundException: Class a.B "
                f"not found{STACK}\nCaused by: java.lang.ClassNotFoundException: Class a.B not "
                f"found{STACK}"
            ),
            "Class a.B not found",
        ),
        (
            Py4JError(
                f"{CALL}org.apache.spark.SparkException: it failed{STACK}\n"
                f"Caused by: java.lang.NullPointerException{STACK}"
            ),
            "it failed",
        ),
        (
            AnalysisException(
                "[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703; line 1 "
                "pos 0;\n'Project ['x]\n+- Relation"
            ),
            "[UNRESOLVED_COLUMN] A column `x` cannot be resolved.",
        ),
    ],
)
def test_the_reason_is_the_last_cause_without_its_stack(error, reason):
    assert reason_of(error) == reason
