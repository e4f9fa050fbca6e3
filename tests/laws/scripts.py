"""What the laws beside the oracle share: how often they ask, and a case without steps."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, Phase, settings

from tidegate.cases import Case
from tidegate.cases.model import Stream

# A script is many batches on Spark, seconds each: one script a query, the same in every run.
one_script = settings(
    max_examples=1,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def case_of(query: str, stream: Stream, settings_: Mapping[str, object]) -> Case:
    """The query as a case without steps."""
    return Case(
        path="", line=0, name="", stream=stream, tables=(), any_cuts=False, query=query,
        settings=settings_, ordered=False, steps=(), final=None, counts={}, error=None,
    )  # fmt: skip
