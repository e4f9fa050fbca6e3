"""Batch after batch, a query holds no more than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .long_run import grown, weigh_run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.whole
def test_nothing_grows_from_batch_to_batch(spark: SparkSession, tmp_path: Path) -> None:
    assert not grown(*weigh_run(spark, tmp_path, batches=200))
