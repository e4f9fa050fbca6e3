"""The server: what it answers, whom it answers, and that nothing else can be read from it."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from click.testing import CliRunner

from monitor.jobs import EXPLAINED, PretendedJob
from state.manifests import SECOND, local_files
from tidegate.cli import main
from tidegate.errors import ConfigError
from tidegate.monitor import server as server_module
from tidegate.monitor.server import MonitorServer
from tidegate.monitor.watch import Watch
from tidegate.state.reader import StateReader
from tidegate.state.shard_map import Shard
from tidegate.state.watermark import WatermarkState

NOW = 1_000 * SECOND


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Asks a server, without following its own ideas about paths and headers."""

    def __init__(self, server: MonitorServer) -> None:
        self.server = server

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, fields, body)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a pipeline of two transforms."""
    folder = tmp_path_factory.mktemp("checkpoint")
    for name in ("per_page", "<b>per user"):
        job = PretendedJob(checkpoint=folder / name)
        job.step(NOW, [(NOW - 20 * SECOND, "/home"), (NOW - 5 * SECOND, "<script>alert(1)")])
        late, wrong = (NOW - 60 * SECOND, "/late" * 500), (NOW, "/error")
        job.step(NOW + SECOND, [(NOW, "/home"), late, wrong])
    (folder / "secret.json").write_text('{"password": "hunter2"}')
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with MonitorServer([str(folder)], port=0) as server:
        server.watch.look()
        yield Client(server)


def test_the_list_has_a_line_for_each_transform(client: Client) -> None:
    found = client.get("/api/transforms").json()["transforms"]
    assert [each["id"] for each in found] == ["<b>per user", "per_page"]
    assert found[1]["status"] == "running"
    assert (found[1]["rows_in"], found[1]["late"], found[1]["rate"]) == (5, 1, 3.0)
    assert found[1]["lag_us"] == 5 * SECOND


def test_a_transform_has_its_history_windows_side_output_and_plan(client: Client) -> None:
    client.get("/api/transform?id=per_page")
    client.server.watch.read()
    facts = client.get("/api/transform?id=per_page").json()
    assert [point["epoch"] for point in facts["points"]] == [0, 1]
    assert facts["statement"] == EXPLAINED["statement"]
    assert [(w["groups"], w["rows"], w["closed_in"]) for w in facts["windows"]["timeline"]] == [
        (1, 1, 1),
        (1, 1, None),
        (1, 1, None),
    ]
    assert facts["side_output"][0] == {
        "kind": "late",
        "records": 1,
        "sink": "late_clicks",
        "reasons": {"allowed_lateness_exceeded": 1},
    }
    assert facts["side_output"][2]["reasons"] == {"division_by_zero": 1}
    (result,) = facts["results"]
    assert result == {
        "epoch": 1,
        "clock_us": NOW + SECOND,
        "row": {"page": "/home", "n": "1", "start": "1970-01-01T00:16:20Z"},
    }
    wrong, late = facts["side_sample"]
    assert (wrong["row"]["kind"], wrong["row"]["shard"]) == ("error", None)
    assert wrong["row"]["original_event"] == '{"ts": "1970-01-01T00:16:40Z", "page": "/error"}'
    assert late["text"].startswith('{"kind": "late", "reason": "allowed_lateness_exceeded"')
    assert facts["plan"]["name"] == "DataSink"
    aggregation = facts["plan"]["children"][0]
    assert aggregation["facts"] == [["keys", "_k0 = page"], ["accumulators", "_a0 = count(*)"]]


def test_only_points_of_later_epochs_are_sent_again(client: Client) -> None:
    facts = client.get("/api/transform?id=per_page&after=0").json()
    assert [point["epoch"] for point in facts["points"]] == [1]
    for wrong in ("x", "9" * 40, "%00", "-", ""):
        facts = client.get(f"/api/transform?id=per_page&after={wrong}").json()
        assert len(facts["points"]) == 2


def test_what_has_not_changed_is_not_sent_again(client: Client) -> None:
    tag = client.get("/api/transforms").headers["etag"]
    again = client.get("/api/transforms", If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")


def test_long_answers_are_packed_for_those_who_can_unpack_them(client: Client) -> None:
    plain = client.get("/api/transform?id=per_page")
    packed = client.get("/api/transform?id=per_page", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["id"] == plain.json()["id"]
    assert len(packed.body) < len(plain.body) / 2


def test_the_page_and_its_files_are_served_with_a_strict_policy(client: Client) -> None:
    page = client.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert page.headers["x-content-type-options"] == "nosniff"
    script = client.get("/static/monitor.js")
    assert (script.status, script.headers["content-type"]) == (
        200,
        "text/javascript; charset=utf-8",
    )


def test_the_files_of_the_page_name_no_other_host_and_parse_no_html() -> None:
    folder = Path(server_module.__file__).parent / "static"
    files = {each.name: each.read_text("utf-8") for each in folder.iterdir()}
    assert {"index.html", "monitor.js", "monitor.css"} <= files.keys()
    for name, text in files.items():
        names = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in names, name
        assert "https:" not in names, name
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "document.write"):
            assert word not in text, name
    assert "style=" not in files["index.html"]
    assert "<script>" not in files["index.html"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/api/transform?id=../secret.json",
        "/api/transform?id=%2fetc",
        "/api/transform",
        "/secret.json",
        "/../secret.json",
        "/per_page/tidegate/plan.json",
    ],
)
def test_no_path_reaches_the_disk(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert b"hunter2" not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(client: Client, method: str) -> None:
    assert client.get("/api/transforms", method).status == 405


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9465", 200),
        ("127.0.0.1", 200),
        ("[::1]:9465", 200),
        ("192.168.0.7:9465", 200),
        (socket.gethostname(), 200),
        ("evil.example", 403),
        ("localhost.evil.example:9465", 403),
        ("127.0.0.1.evil.example", 403),
        ("[evil]", 403),
        ("", 403),
    ],
)
def test_a_request_must_name_this_machine(client: Client, host: str, status: int) -> None:
    assert client.get("/api/transforms", Host=host).status == status


def test_a_transform_is_shown_as_soon_as_it_begins(tmp_path: Path) -> None:
    watch = Watch([str(tmp_path / "later")])
    watch.look()
    assert watch.followers == {}
    job = PretendedJob(checkpoint=tmp_path / "later" / "per_page")
    local_files(job.checkpoint)
    watch.look()
    (follower,) = watch.followers.values()
    assert (follower.manifest, follower.status.value) == (None, "waiting")
    job.step(NOW, [])
    watch.look()
    assert follower.manifest is not None


def test_transforms_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        PretendedJob(checkpoint=tmp_path / name / "per_page").step(NOW, [])
    watch = Watch([str(tmp_path / "a"), str(tmp_path / "b" / "per_page"), str(tmp_path / "a")])
    watch.look()
    assert list(watch.followers) == ["per_page", "b/per_page"]


def test_ten_thousand_shards_are_counted_and_the_last_ones_listed(tmp_path: Path) -> None:
    shards = {f"{n}": Shard(event_time_us=n, clock_us=0, name=f"s{n}") for n in range(10_000)}
    job = PretendedJob(checkpoint=tmp_path / "per_page")
    job.step(NOW, [], watermark=WatermarkState(shards=shards, watermark_us=0, by="region: string"))
    with MonitorServer([str(tmp_path)], port=0) as server:
        server.watch.look()
        server.watch.ask("per_page")
        server.watch.read()
        answer = Client(server).get("/api/transform?id=per_page")
    found = answer.json()["shards"]
    assert (found["total"], found["behind"][0]["name"], len(found["behind"])) == (10_000, "s0", 20)
    assert len(answer.body) < 20_000


def test_a_port_in_use_is_told_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"served on 127.0.0.1:{port}: Address already in"):
            MonitorServer(["x"], port=port)


def test_without_its_libraries_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "find_spec", lambda name: None)
    result = CliRunner().invoke(main, ["monitor", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stderr == (
        "the monitor's page is served by starlette, which is not installed\n\n"
        "Run: pip install 'tidegate[monitor]'\n"
    )


def test_the_command_serves_until_it_is_stopped_and_needs_no_spark(folder: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "tidegate", "monitor", str(folder)]
    with TemporaryFile("w+") as imports:
        process = subprocess.Popen(
            [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=imports, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Monitor at http://127.0.0.1:")
        port = int(line.split(":")[2].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()
        process.terminate()
        assert process.wait(timeout=10) == 0
        imports.seek(0)
        imported = imports.read()
    assert "starlette.applications" in imported
    assert "pyspark" not in imported


def test_a_store_that_is_away_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = PretendedJob(checkpoint=tmp_path / "per_page")
    job.step(NOW, [])
    answers: list[dict[str, StateReader]] = [{}, {"per_page": StateReader(job.checkpoint)}]

    def remote(folder: str) -> dict[str, StateReader]:
        if len(answers) == 2 and not caplog.records:
            raise OSError(f"{folder} is away")
        return answers.pop(0)

    watch = Watch(["s3a://bucket/checkpoint"], remote)
    for _ in range(3):
        watch.look()
    assert list(watch.followers) == ["per_page"]
    assert [record.getMessage() for record in caplog.records] == [
        "s3a://bucket/checkpoint cannot be read, and is tried again: "
        "s3a://bucket/checkpoint is away"
    ]


def test_a_run_whose_monitor_finds_its_port_taken_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text(
        '[pipeline]\ncheckpoint = "checkpoint"\n'
        '[sources.r]\nformat = "json"\npath = "in"\nschema = "ts TIMESTAMP"\n'
        "[transforms.per_second]\n"
        "sql = \"SELECT count(*) AS n FROM r GROUP BY tumblingwindow('ss', 1) ON ts\"\n"
        '[sinks.out]\nfrom = "per_second"\nformat = "parquet"\npath = "out"\n'
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(main, ["run", str(pipeline), "--monitor-port", port])
    assert result.exit_code != 0
    assert f"the monitor cannot be served on 127.0.0.1:{port}: Address already in" in result.stderr
    assert not (tmp_path / "checkpoint").exists()
