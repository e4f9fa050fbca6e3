"""Fixtures of the tests of real systems: servers on loopback, and one Spark with all connectors.

``make test-systems`` runs these tests. They fetch what they need themselves, so a test that is
skipped fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from jvm import JAVA_OPTIONS, MEMORY
from systems.broker import Broker
from systems.parts import connector_jars
from systems.postgres import Postgres
from systems.topics import Topics
from tidegate.spark.packages import PACKAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of these tests: two cores, two shuffle partitions, UTC, all connectors."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from tidegate.spark.session import local_session

    session = local_session(
        cores=2,
        options={
            "spark.driver.extraClassPath": os.pathsep.join(connector_jars()),
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.driver.memory": MEMORY,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            **PACKAGES["delta"].settings,
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def running_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(folder=tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def broker(running_broker: Broker, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """The Kafka broker; the end of its log is part of the report of a test that fails."""
    yield running_broker
    report = getattr(request.node, "call_report", None)
    if report is not None and report.failed:
        sys.stderr.write(f"\nThe broker's log ends with\n{running_broker.tail()}\n")


@pytest.fixture
def topics(broker: Broker, spark: SparkSession) -> Topics:
    """The topics of the broker; a pipeline that reads them runs in the session."""
    return Topics(broker)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL server, which a test may stop and start again."""
    with TemporaryDirectory(prefix="tidegate-postgres-") as folder:
        server = Postgres(folder=Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Keep the report of a test for its fixtures; a test that is skipped has failed."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and here that is a failure: {report.longrepr}"
    if call.when == "call":
        item.call_report = report
    return report
