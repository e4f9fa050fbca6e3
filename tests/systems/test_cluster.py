"""A query on a cluster gives the answers that it gives on one machine, also when a worker dies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

from systems import cluster_job
from systems.cluster import Cluster
from systems.flows import Flow, clicks

USERS = [("ann", "bob", "cid") * 5, ("ann", "ann"), ("bob", "cid"), ("dan",), ("eve", "ann")]
EXPECTED = Counter(
    (user, users[:10].count(user), minute, 0)
    for minute, users in enumerate(USERS)
    for user in {*users[:10]}
) + Counter((user, USERS[0][10:].count(user), 0, 10) for user in {*USERS[0][10:]})


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(folder=tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_worker_that_is_killed_changes_no_answer(cluster, tmp_path):
    flow = Flow(folder=tmp_path)
    for minute, users in enumerate(USERS):
        flow.add(clicks(minute, *users))
    driver = cluster.submit(Path(cluster_job.__file__), str(tmp_path))
    lines = []
    for line in driver.stdout:
        lines.append(line.split())
        if line.split() == ["batch", "1"]:
            cluster.kill_worker(0)
    assert driver.wait(timeout=120) == 0, cluster.tail()
    assert lines[0] == ["master", cluster.url]
    assert [words[1] for words in lines if words[0] == "batch"][:5] == ["0", "1", "2", "3", "4"]
    table = pyarrow.parquet.read_table(tmp_path / "out")
    found = Counter(
        (row["user"], row["n"], row["s"].minute, row["s"].second) for row in table.to_pylist()
    )
    assert found == EXPECTED
