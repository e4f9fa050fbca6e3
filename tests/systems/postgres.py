"""A PostgreSQL server in a process of its own, on a free port of loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from systems.broker import free_ports

SECONDS = 60
USER = "tidegate"

# Durability of the machine is not at stake; a crash of the server is.
CONF = """\
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
shared_buffers = 16MB
max_connections = 40
"""


@dataclass(kw_only=True)
class Postgres:
    """A server with its data in ``folder``; it keeps data and port when it is started again.

    Its user must reach the folder, so it cannot be one of pytest's, which are of the caller alone.
    """

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])

    def __post_init__(self) -> None:
        if os.geteuid() == 0:
            # The server refuses to run as root.
            shutil.chown(self.folder, "postgres")
        self._run("initdb", "-A", "trust", "-U", USER, "-N", "-E", "UTF8", "--locale=C")
        conf = CONF.format(port=self.port, folder=self.folder)
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(conf)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def options(self) -> dict[str, str]:
        return {"user": USER}

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        """End the server; ``immediate`` is what a crash leaves."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def sql(self, statement: str) -> list[list[str]]:
        """Run statements with psql, an outside client; return rows of text, NULL as ``~``."""
        psql = shutil.which("psql") or str(_programs() / "psql")
        place = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres")
        flags = ("-X", "-q", "-A", "-t", "-F", "|", "-P", "null=~", "-v", "ON_ERROR_STOP=1")
        done = subprocess.run(
            [psql, *place, *flags, "-c", statement],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    def tail(self, lines: int = 40) -> str:
        """Return the end of the server's log."""
        log = self.folder / "log"
        text = log.read_text(errors="replace") if log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_programs() / program), "-D", str(self._data), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        subprocess.run(
            command, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL, cwd=self.folder
        )


def _programs() -> Path:
    """Return the folder of the newest server that is installed (Debian: apt install postgresql)."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[4]))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    assert initdb, "these tests need PostgreSQL (Debian and Ubuntu: apt install postgresql)"
    return Path(initdb).resolve().parent
