"""Which failures may pass by themselves: what clients say of a server that is away, and no more."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from docs.pages import first_cells, section
from tidegate.connectors.transient import TRANSIENT, transient_cause
from tidegate.engine.failures import in_a_batch, outside_of_batches
from tidegate.errors import ConfigError, ExecutionError, StateError

PASSING = [
    (
        "kafka",
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
    ),
    (
        "kafka",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 "
        "failed 1 times\nCaused by: java.util.concurrent.ExecutionException: "
        "org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for out-0:120000 ms",
    ),
    (
        "kafka",
        "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\nCaused by: "
        "org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given",
    ),
    (
        "kafka",
        "org.apache.kafka.common.errors.NotLeaderOrFollowerException: For requests intended only "
        "for the leader",
    ),
    (
        "database",
        "An error occurred while calling o1.apply.\n: org.postgresql.util.PSQLException: "
        "Connection to 127.0.0.1:5432 refused. Check that the hostname and port are correct",
    ),
    (
        "database",
        "org.postgresql.util.PSQLException: FATAL: the database system is starting up",
    ),
    (
        "database",
        "org.postgresql.util.PSQLException: FATAL: terminating connection due to administrator "
        "command",
    ),
    ("storage", "org.apache.hadoop.fs.s3a.AWSServiceThrottledException: getFileStatus on a/b: 503"),
    ("storage", "org.apache.hadoop.ipc.StandbyException: Operation category READ is not supported"),
    ("network", "java.net.ConnectException: Connection refused"),
    ("network", "java.net.SocketException: Connection reset"),
]
STAYING = [
    "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.",
    "java.io.IOException: No space left on device",
    "java.lang.OutOfMemoryError: Java heap space",
    # Kafka: records that are lost, a topic that is gone, a wrong password.
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host it",
    "java.lang.IllegalStateException: org.apache.spark.sql.kafka010 Partition a-0 offset was "
    "changed from 9 to 3\nCaused by: org.apache.kafka.common.errors.TimeoutException: slow",
    "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed\nCaused by: "
    "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.",
    "org.apache.kafka.common.errors.TimeoutException: Topic a not present in metadata after 1 ms.",
    # A wrong password, and a certificate that is not trusted, behind a connection that failed.
    'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "etl"',
    "org.postgresql.util.PSQLException: The connection attempt failed.\nCaused by: "
    "javax.net.ssl.SSLHandshakeException: PKIX path building failed",
    "java.nio.file.AccessDeniedException: s3a://a/b: Status Code: 403",
    # A constraint of the table is broken by a row.
    'org.postgresql.util.PSQLException: ERROR: null value in column "n" violates a constraint',
]


def of_spark(text: str) -> StreamingQueryException:
    return StreamingQueryException(message=text)


@pytest.mark.parametrize(("cause", "text"), PASSING)
def test_a_server_that_is_away_is_told_with_its_cause(cause: str, text: str) -> None:
    assert transient_cause(of_spark(text)) == cause
    assert in_a_batch(of_spark(text)).transient == cause
    outside = outside_of_batches(of_spark(text))
    assert outside is not None
    assert outside.transient == cause


@pytest.mark.parametrize("text", STAYING)
def test_what_a_server_refuses_or_a_row_breaks_stays(text: str) -> None:
    assert transient_cause(of_spark(text)) is None
    assert in_a_batch(of_spark(text)).transient is None


def test_only_what_spark_or_java_says_counts_not_the_words_of_other_errors() -> None:
    said = "java.net.ConnectException: Connection refused"
    assert transient_cause(RuntimeError(said)) is None
    assert transient_cause(ConfigError(said)) is None


def test_the_failure_behind_an_error_of_ours_counts() -> None:
    for kind in (ConfigError, StateError, ExecutionError):
        error = kind("the table cannot be used")
        error.__cause__ = of_spark(PASSING[4][1])
        assert transient_cause(error) == "database"
        assert in_a_batch(error).transient == "database"


def test_every_cause_is_in_the_docs() -> None:
    told = {row[0].strip("`"): row[1] for row in first_cells(section("operations.md", "Restarts"))}
    assert {each.cause: each.meaning for each in TRANSIENT}.items() <= told.items()
