"""Failures that may pass by themselves: a server that is away for a moment. The one table.

Only what is here is tried again (``restart`` of a pipeline); anything else stays until somebody
mends it, and trying again would hide it. So an entry names what a client says of a server that it
does not reach, or that refuses for now; never what a server answers to a wrong request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.connectors.kafka_failures import failure_of
from tidegate.spark.failures import is_of_spark, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Transient:
    """Failures of one cause.

    Attributes:
        cause: its name, the label in metrics.
        meaning: what has happened, for the docs.
        signs: patterns of which one is found in the text of such a failure.
    """

    cause: str
    meaning: str
    signs: tuple[str, ...]


# What never passes, whatever else the text says: a client reports a wrong password as the reason
# why it has no connection.
LASTING = (
    r"AuthenticationException|AuthorizationException|AccessDenied|AccessControlException",
    r"password authentication failed|no pg_hba\.conf entry|role \"[^\"]*\" does not exist",
    r"SSLHandshakeException|CertificateException|CertPathValidatorException|PKIX path",
    r"InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|OutOfMemoryError",
)

# Kafka's own failures are in ``kafka_failures``, where each says whether it may pass.
TRANSIENT = (
    Transient(
        cause="kafka",
        meaning="no Kafka broker answers, or a partition has no leader just now",
        signs=(
            r"kafka\.common\.errors\.(Timeout|Disconnect|Network|Retriable)Exception",
            r"kafka\.common\.errors\.(LeaderNotAvailable|NotLeaderOrFollower)Exception",
            r"kafka\.common\.errors\.(BrokerNotAvailable|CoordinatorNotAvailable)Exception",
            r"kafka\.common\.errors\.NotEnoughReplicas(AfterAppend)?Exception",
            r"Cannot fetch record for offset \d+ in \d+ milliseconds",
        ),
    ),
    Transient(
        cause="database",
        meaning="the database starts, stops or restarts, has no free connection, or met a deadlock",
        signs=(
            r"PSQLException: (FATAL: )?(Connection to \S+ refused|The connection attempt failed)",
            r"PSQLException: An I/O error occurred while sending to the backend",
            r"PSQLException: This connection has been closed",
            r"the database system is (starting up|shutting down|in recovery mode)",
            r"terminating connection due to (administrator command|crash of another server)",
            r"(sorry, )?too many clients already|remaining connection slots are reserved",
            r"deadlock detected|could not serialize access",
        ),
    ),
    Transient(
        cause="storage",
        meaning="an object store or HDFS cannot be reached, is overloaded or switches over",
        signs=(
            r"fs\.s3a\.AWS(ServiceThrottled|Status5\d\d|ApiCallTimeout|ServiceIO)Exception",
            r"Unable to execute HTTP request|Status Code: 50[034]|SlowDown",
            r"hadoop\.ipc\.(Standby|Retriable)Exception|SafeModeException",
        ),
    ),
    Transient(
        cause="network",
        meaning="a connection is refused, breaks or gets no answer, or a name is not resolved",
        signs=(
            r"java\.net\.(Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception",
            r"java\.net\.SocketException: (Connection reset|Broken pipe|Network is unreachable)",
            r"hadoop\.net\.ConnectTimeoutException",
        ),
    ),
)


def transient_cause(error: BaseException) -> str | None:
    """Return the cause of a failure that may pass by itself, None if it stays.

    Args:
        error: the failure; what caused it (``__cause__``) is looked at as well.
    """
    known = getattr(error, "transient", None)
    if isinstance(known, str):
        return known
    found: BaseException | None = error
    while found is not None:
        if is_of_spark(found):
            return _cause_in(text_of(found))
        found = found.__cause__
    return None


def _cause_in(text: str) -> str | None:
    if _LASTING.search(text):
        return None
    of_kafka = failure_of(text)
    if of_kafka is not None:
        return "kafka" if of_kafka.may_pass else None
    return next((cause for cause, signs in _COMPILED if signs.search(text)), None)


_LASTING = re.compile("|".join(LASTING))
_COMPILED = tuple((each.cause, re.compile("|".join(each.signs))) for each in TRANSIENT)
