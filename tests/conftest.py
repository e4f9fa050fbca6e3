"""Fixtures of all tests: one Spark session, started when the first test wants it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from interpreted import interpreting
from jvm import JAVA_OPTIONS, MEMORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# An example may take long on a machine that is busy with other work.
settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small session: two cores, two shuffle partitions, UTC, a temporary warehouse."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from tidegate.spark.session import local_session

    session = local_session(
        cores=2,
        options={
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.driver.memory": MEMORY,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield session
    session.stop()


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """The session without generated code: compiling takes long for a query that runs once."""
    with interpreting(spark):
        yield spark
