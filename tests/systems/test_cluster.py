"""A query on a cluster gives the answers that it gives on one machine, also when a worker dies."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

from systems import cluster_job, state_rows_job
from systems.cluster import Cluster, environment
from systems.events import LOGGED, jobs_of
from systems.flows import SCHEMA, SQL, Flow, clicks

DOCS = Path(__file__).parents[2] / "docs" / "clusters.md"
USERS = [("ann", "bob", "cid") * 5, ("ann", "ann"), ("bob", "cid"), ("dan",), ("eve", "ann")]
EXPECTED = Counter(
    (user, users[:10].count(user), minute, 0)
    for minute, users in enumerate(USERS)
    for user in {*users[:10]}
) + Counter((user, USERS[0][10:].count(user), 0, 10) for user in {*USERS[0][10:]})


PIPELINE = f"""
[pipeline]
checkpoint = "checkpoint"
{{options}}

[sources.r]
format = "json"
path = "in"
schema = "{SCHEMA}"

[transforms.counts]
sql = '''{SQL}'''

[sinks.out]
from = "counts"
format = "delta"
path = "out"
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    cluster = Cluster(folder=tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(running):
    running.complete()
    return running


@pytest.fixture
def flow(tmp_path):
    flow = Flow(folder=tmp_path)
    for minute, users in enumerate(USERS):
        flow.add(clicks(minute, *users))
    return flow


def results(flow: Flow) -> Counter:
    table = pyarrow.parquet.read_table(flow.folder / "out")
    return Counter(
        (row["user"], row["n"], row["s"].minute, row["s"].second) for row in table.to_pylist()
    )


def test_a_worker_that_is_killed_changes_no_answer(cluster, flow):
    """The script uses the Java, the master and the options of ``spark-submit``."""
    driver = cluster.submit(
        Path(cluster_job.__file__), str(flow.folder), spark_sql_session_timeZone="Asia/Tokyo"
    )
    lines = []
    for line in driver.stdout:
        lines.append(line.split())
        if line.split() == ["batch", "1"]:
            cluster.kill_worker(0)
    assert driver.wait(timeout=120) == 0, cluster.tail()
    assert lines[0] == ["spark", cluster.url, "Asia/Tokyo", "one"]
    assert [words[1] for words in lines if words[0] == "batch"][:5] == ["0", "1", "2", "3", "4"]
    assert results(flow) == EXPECTED


def test_a_pipeline_file_is_submitted_as_the_docs_say(cluster, flow):
    """The workers get the jars of Delta from the driver, which fetches them."""
    (script,) = re.findall(r"```python\n# run_pipeline.py\n(.*?)```", DOCS.read_text(), re.DOTALL)
    file, run = flow.folder / "pipeline.toml", flow.folder / "run_pipeline.py"
    file.write_text(PIPELINE.format(options=""))
    run.write_text(script)
    before = cluster.applications()
    driver = cluster.submit(run, "run", str(file), "--once", "--drain")
    assert driver.wait(timeout=180) == 0, cluster.tail()
    assert len(cluster.applications() - before) == 1
    assert results(flow) == EXPECTED


def test_a_pipeline_file_may_name_its_cluster(cluster, flow):
    options = f"""
        spark.master = "{cluster.url}"
        spark.driver.host = "127.0.0.1"
        spark.executor.memory = "512m"
    """
    file = flow.folder / "pipeline.toml"
    file.write_text(PIPELINE.format(options=options))
    before = cluster.applications()
    command = [sys.executable, "-m", "tidegate", "run", str(file), "--once", "--drain"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr
    assert len(cluster.applications() - before) == 1
    assert results(flow) == EXPECTED


def test_bytes_decide_how_many_workers_merge_and_close_the_state(cluster, tmp_path):
    """The same number of rows, of 1 KB and of 100 KB: one task is enough for the former."""
    log = tmp_path / "events"
    log.mkdir()
    options = {**LOGGED, "spark_eventLog_dir": log.as_uri()}
    driver = cluster.submit(
        Path(state_rows_job.__file__), str(tmp_path), "1000", "100000", **options
    )
    said = [line.split() for line in driver.stdout if line.startswith("ended")]
    assert driver.wait(timeout=180) == 0, cluster.tail()
    rows = str(state_rows_job.BATCHES * state_rows_job.KEYS)
    assert said == [["ended", "1000", rows, "1000"], ["ended", "100000", rows, "100000"]]
    jobs = jobs_of(log)
    small, large = [job for job in jobs if job.description == "close"]
    assert len(small.widest) == 1
    assert len(large.widest) >= 2
    assert {*large.widest} == {"0", "1"}
    # Small rows are merged in the last batch, after its own segment has been written. Large ones
    # are merged beside the batches, by half of the cores.
    last = [job for job in jobs if job.batch == state_rows_job.BATCHES - 1]
    assert len(last) == 3
    assert len(last[1].widest) == 1
    (merge,) = [job for job in jobs if job.description == "merge segments of the state"]
    assert merge.batch is None
    assert len(merge.widest) == 1
