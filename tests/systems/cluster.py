"""A standalone Spark cluster: a master and workers in processes of their own, on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pyspark

from systems.broker import free_ports

SECONDS = 120
HOME = Path(pyspark.__file__).parent
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass(kw_only=True)
class Cluster:
    """A master and two workers with a core each."""

    folder: Path
    port: int = 0
    _page: int = 0
    _master: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.port, self._page = free_ports(2)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start all and wait until the master knows both workers."""
        ports = ("--port", str(self.port), "--webui-port", str(self._page))
        self._master = self._launch(_MASTER, "--host", "127.0.0.1", *ports)
        self.complete()

    def complete(self) -> None:
        """Start the workers that are missing."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for number in range(len(self.workers), 2):
            size = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
            place = ("--host", "127.0.0.1", "-d", str(self.folder / f"work{number}"))
            self.workers.append(self._launch(_WORKER, *place, *size, self.url))
        deadline = monotonic() + SECONDS
        while self._state().get("aliveworkers", 0) < 2:
            assert monotonic() < deadline, "the workers do not register"
            Event().wait(0.2)

    def applications(self) -> set[str]:
        """Return the ids of the applications that have had an executor on a worker."""
        return {place.name for place in self.folder.glob("work*/app-*")}

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executor, as a machine that is lost."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def submit(self, script: Path, *arguments: str, **options: str) -> subprocess.Popen[str]:
        """Return a running ``spark-submit`` of a script, whose output is a pipe.

        Args:
            script: the script.
            arguments: its arguments.
            options: options of Spark, with ``_`` for a point.
        """
        given = {"spark_driver_host": "127.0.0.1", "spark_ui_enabled": "false", **options}
        command = [
            *(str(HOME / "bin" / "spark-submit"), "--master", self.url),
            *("--executor-memory", "512m", "--driver-memory", "512m"),
            *(f"--conf={name.replace('_', '.')}={value}" for name, value in given.items()),
            *(str(script), *arguments),
        ]
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )

    def tail(self, lines: int = 60) -> str:
        """Return the end of the driver's log."""
        log = self.folder / "driver.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _state(self) -> dict[str, Any]:
        """What the master says of itself, in JSON; nothing while it starts."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page:
                return json.load(page)
        except (OSError, ValueError):
            return {}

    def _launch(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{main.rpartition('.')[2]}.log").open("ab") as log:
            return subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), main, *arguments],
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )


def environment() -> dict[str, str]:
    ours = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return {**os.environ, **ours}
