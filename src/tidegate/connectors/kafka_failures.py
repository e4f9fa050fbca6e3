"""Failures of Kafka in a running query: what happened, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOST = (
    "They cannot be had back. To go on with the oldest records that are there, set "
    "options.failOnDataLoss = false, and give the topic a longer retention. If the topic was "
    "deleted and made again, start with a new checkpoint: the offsets in this one belong to "
    "records of the old topic."
)
_MADE_AGAIN = (
    "Start with a new checkpoint, from options.startingOffsets: the offsets in this one belong "
    "to records of the old topic."
)
_GONE = (
    "If the topic was deleted for good, remove the source. If it was made again, start with a new "
    "checkpoint: the offsets in this one belong to records of the old topic."
)
_NO_TOPIC = (
    "Create the topic, or correct its name in the options of the source or sink; the user may also "
    "lack the right to see it. If a source's topic was deleted and is made again, start with a new "
    "checkpoint: the offsets in this one belong to records of the old topic."
)
_NO_BROKER = (
    'Start the broker, or correct options."kafka.bootstrap.servers" and the security options; '
    "then restart the query: it completes the batch."
)
_LOGIN = (
    "Correct the user, the password or the mechanism in the security options (kafka.security.*, "
    "kafka.sasl.*)."
)


@dataclass(frozen=True, slots=True)
class KafkaFailure:
    """A failure of Kafka.

    Attributes:
        pattern: what is found in its text.
        what: what happened, with the groups of the pattern.
        mend: what to do.
        may_pass: whether it may pass by itself, so that trying again is of use.
    """

    pattern: str
    what: str
    mend: str
    may_pass: bool = False


# The first one that is found counts.
FAILURES = (
    KafkaFailure(
        r"Could not read records in offset \[(\d+), (\d+)\) for topic partition (\S+)",
        "Kafka no longer has all records of {2} from offset {0} to before {1}: it deleted them "
        "before they were read (retention), or the topic was deleted",
        _LOST,
    ),
    KafkaFailure(
        r"Partition (\S+) offset was changed from (\d+) to (\d+)",
        "partition {0} ends at offset {2}, but the query has read up to {1}: the topic was deleted "
        "and made again",
        _MADE_AGAIN,
    ),
    KafkaFailure(
        r"Starting offset for (\S+) was (\d+) but consumer reset to (\d+)",
        "Kafka no longer has the records of {0} from offset {1} to before {2}: it deleted them "
        "before they were read (retention)",
        _LOST,
    ),
    KafkaFailure(
        r"Added partition (\S+) starts from (\d+) instead of 0",
        "Kafka no longer has the records of the new partition {0} before offset {1}: it deleted "
        "them before they were read (retention)",
        _LOST,
    ),
    KafkaFailure(
        r"Partitions (?:Set|HashSet)?\(?([^)\n]+?)\)? have been deleted",
        "the partitions {0} are gone: their topic was deleted, or made again with fewer partitions",
        _GONE,
    ),
    KafkaFailure(
        r"Cannot find initial offsets for partitions (?:Set|HashSet)?\(?([^)\n]+?)\)?\. They may",
        "the new partitions {0} are gone: their topic was deleted",
        _GONE,
    ),
    KafkaFailure(
        r"position for partition (\S+) could be determined",
        "the broker does not know partition {0}: its topic was deleted, or the broker is gone",
        _GONE,
        may_pass=True,
    ),
    KafkaFailure(
        r"Topic (\S+) not present in metadata after",
        "there is no topic {0}, or no broker answered",
        _NO_TOPIC,
    ),
    KafkaFailure(
        r"UnknownTopicOrPartitionException",
        "there is no such topic on the broker",
        _NO_TOPIC,
    ),
    KafkaFailure(
        r"SaslAuthenticationException: ([^\n]+)",
        "the broker refuses the login: {0}",
        _LOGIN,
    ),
    KafkaFailure(
        r"SslAuthenticationException: ([^\n]+)",
        "the broker and this client do not agree on TLS: {0}",
        _LOGIN,
    ),
    KafkaFailure(
        r"(?:Topic|Group)AuthorizationException: ([^\n]+)",
        "the user has no right: {0}",
        "Give the user the right, or take another one in the security options (kafka.sasl.*).",
    ),
    KafkaFailure(
        r"No resolvable bootstrap urls",
        "no address in kafka.bootstrap.servers can be found",
        _NO_BROKER,
        may_pass=True,
    ),
    KafkaFailure(
        r"Timed out waiting for a node assignment|Timeout expired while fetching topic metadata"
        r"|org\.apache\.kafka\.common\.errors\.TimeoutException",
        "no Kafka broker answers",
        _NO_BROKER,
        may_pass=True,
    ),
)


def kafka_failure(text: str) -> tuple[str, str] | None:
    """Return what happened and what to do, None if the failure is not one of Kafka's.

    Args:
        text: all of the failure, with its causes.
    """
    failure = failure_of(text)
    if failure is None:
        return None
    found = re.search(failure.pattern, text)
    assert found is not None, "it was found by its pattern"
    return failure.what.format(*(group.strip(".,") for group in found.groups())), failure.mend


def failure_of(text: str) -> KafkaFailure | None:
    """Return the failure that a text tells of, None if it is not one of Kafka's."""
    if "kafka" not in text:
        return None
    return next((each for each in FAILURES if re.search(each.pattern, text)), None)
