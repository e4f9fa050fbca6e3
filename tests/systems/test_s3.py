"""Everything on S3: the source, the checkpoint with Spark's part and the state, and the sinks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

import tidegate
from systems.flows import SCHEMA, SQL, clicks, crashing
from tidegate import ExecutionError, FileSink
from tidegate.spark.folders import open_folder
from tidegate.state.hadoop_files import HadoopFiles

USERS = [("ann", "bob"), ("ann", "ann"), ("bob", "cid"), ("dan",)]
EXPECTED = Counter(
    (user, users.count(user), minute) for minute, users in enumerate(USERS) for user in {*users}
)


@pytest.fixture(scope="module")
def bucket(spark) -> Iterator[str]:
    """A bucket of an S3 server on loopback, which Spark reaches as ``s3a://``."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    settings = {
        "endpoint": url,
        "endpoint.region": "us-east-1",
        "access.key": "key",
        "secret.key": "secret",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in settings.items():
        hadoop.set(f"fs.s3a.{name}", value)
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="lake")
    for minute, users in enumerate(USERS):
        body = "\n".join(json.dumps(row) for row in clicks(minute, *users))
        client.put_object(Bucket="lake", Key=f"in/{minute}.json", Body=body.encode())
    yield "s3a://lake"
    server.stop()


def run(spark, bucket, *, drain=False):
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{bucket}/in")
    query = tidegate.sql(SQL, streams={"r": stream})
    sink = FileSink(format="parquet", path=f"{bucket}/out")
    run = query.start(sink=sink, checkpoint=f"{bucket}/checkpoint", once=True)
    run.await_termination()
    if drain:
        run.stop(drain=True)


def test_a_query_on_s3_that_fails_after_each_write_leaves_each_result_once(
    spark, bucket, monkeypatch
):
    left = crashing(monkeypatch, "after_results", [1, 3])
    for _ in range(2):
        with pytest.raises(ExecutionError):
            run(spark, bucket)
    assert left == []
    run(spark, bucket, drain=True)
    rows = spark.read.parquet(f"{bucket}/out").collect()
    assert Counter((row["user"], row["n"], row["s"].minute) for row in rows) == EXPECTED


def test_of_two_writers_of_a_file_on_s3_one_is_refused(spark, bucket):
    files = HadoopFiles(spark, f"{bucket}/state")
    files.put_if_absent("manifests/1.json", "first")
    with pytest.raises(FileExistsError):
        files.put_if_absent("manifests/1.json", "second")
    assert files.read("manifests/1.json") == "first"
    folder = open_folder(spark, f"{bucket}/owned")
    assert folder.put_if_absent("owner", "first")
    assert not folder.put_if_absent("owner", "second")
    assert folder.read("owner") == "first"


def test_a_file_that_appears_while_another_is_written_on_s3_stays(spark, bucket):
    """The condition is judged when the file is complete, not when its writing begins."""
    jvm = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{bucket}/state/race.json")
    system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    option = "fs.option.create.conditional.overwrite"
    slow = system.createFile(path).must(option, True).build()
    slow.write(bytearray(b"slow"))
    files = HadoopFiles(spark, f"{bucket}/state")
    files.put_if_absent("race.json", "quick")
    with pytest.raises(Exception, match=r"exists|changed|412|Precondition"):
        slow.close()
    assert files.read("race.json") == "quick"
