"""Spark Connect is refused, with a server and a client of Spark's own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from threading import Event
from time import monotonic

import pytest

from systems.broker import free_ports
from systems.cluster import HOME, environment

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SECONDS = 120

CLIENT = """
import json, sys
import tidegate as tg
from pyspark.sql import SparkSession

SQL = "SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 10) ON timestamp"
remote = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
stream, table = remote.readStream.format("rate").load(), remote.range(1)
query = tg.sql(SQL, r="timestamp TIMESTAMP, value BIGINT")
calls = {
    "stream": lambda: tg.sql(SQL, r=stream),
    "spark": lambda: tg.sql(SQL, r="timestamp TIMESTAMP", spark=remote),
    "table": lambda: query.batch(r=table),
    "session": lambda: tg.local_session(),
}
said = {}
for name, call in calls.items():
    try:
        call()
    except tg.ConfigError as error:
        said[name] = str(error)
print(json.dumps(said))
"""


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def server(tmp_path):
    (port,) = free_ports(1)
    options = ("--conf", f"spark.connect.grpc.binding.port={port}", "--master", "local[1]")
    command = [str(HOME / "bin" / "spark-submit"), "--class", SERVER, *options, "spark-internal"]
    log = (tmp_path / "server.log").open("ab")
    process = subprocess.Popen(
        command,
        stdout=log,
        stderr=log,
        env={**environment(), "SPARK_DAEMON_MEMORY": "512m"},
        start_new_session=True,
    )
    deadline = monotonic() + SECONDS
    while not is_listening(port):
        assert process.poll() is None, (tmp_path / "server.log").read_text()[-3000:]
        assert monotonic() < deadline, "the server does not start"
        Event().wait(0.2)
    yield f"sc://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    log.close()


def test_sessions_and_frames_of_spark_connect_are_refused(server):
    command = [sys.executable, "-c", CLIENT, server]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    another = "this process has a session of Spark Connect, so Spark gives it no other"
    why = "Tidegate works in the driver of Spark, and a client of Spark Connect has none"
    assert {name: text.partition("\n\n")[0] for name, text in said.items()} == {
        "stream": f"r is a DataFrame of Spark Connect; {why}",
        "table": f"r is a DataFrame of Spark Connect; {why}",
        "spark": f"spark is a SparkSession of Spark Connect; {why}",
        "session": f"{another}; {why}",
    }
