"""Serves metrics to Prometheus and health to supervisors: ``/metrics``, ``/livez``, ``/readyz``.

    /metrics    the metrics; so does any other path
    /livez      200 if the process is fine, 503 if it should be started again
    /readyz     200 if all queries run, 503 while they start or wait for a restart
    /healthz    200 if both hold

The last three answer with the same JSON. ``?max_age=10m`` adds that the last batch must not be
older, ``?max_batch=10m`` that the current one must not take longer.
"""

from __future__ import annotations

import json
import socket
import threading
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tidegate.errors import ConfigError
from tidegate.metrics.health import HEALTH, Limits
from tidegate.metrics.recorder import RECORDER
from tidegate.time import parse_duration

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

DEFAULT_HOST = "127.0.0.1"

# By path: whether a report means that all is well.
CHECKS = {
    "/livez": lambda report: report.live,
    "/readyz": lambda report: report.ready,
    "/healthz": lambda report: report.live and report.ready,
}

_TIMEOUT_SECONDS = 30


class MetricsServer:
    """Serves metrics and health of this process on ``http://host:port`` until it is closed."""

    def __init__(self, port: int, host: str = DEFAULT_HOST) -> None:
        try:
            self._server = _server(port, host)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"metrics cannot be served on {host}:{port}: {reason}\n\n"
                "Choose another port; 0 takes any free one."
            ) from error
        self.host = host
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="tidegate-metrics",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _server(port: int, host: str) -> ThreadingHTTPServer:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True

    return Server(address, _handler())  # type: ignore[arg-type]  # an address of either family


def _handler() -> type[BaseHTTPRequestHandler]:
    from prometheus_client import CollectorRegistry, MetricsHandler

    of_process = CollectorRegistry(auto_describe=False)
    of_process.register(RECORDER)

    class Handler(MetricsHandler):
        registry = of_process
        timeout = _TIMEOUT_SECONDS

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path not in CHECKS:
                super().do_GET()
                return
            status, body = answer(url.path, url.query)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

    return Handler


def answer(path: str, query: str) -> tuple[int, bytes]:
    """Return the status and the body for a path of ``CHECKS`` with its query."""
    try:
        limits = _limits(query)
    except ValueError as error:
        return 400, _json({"error": str(error)})
    report = HEALTH.report(limits)
    return (200 if CHECKS[path](report) else 503), _json(report.json())


def _limits(query: str) -> Limits:
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    wrong = given.keys() - {"max_age", "max_batch"}
    if wrong:
        raise ValueError(f"{min(wrong)} is unknown; write max_age=10m or max_batch=10m")
    seconds = {name: parse_duration(text) / 1_000_000 for name, text in given.items()}
    return Limits(age=seconds.get("max_age"), batch=seconds.get("max_batch"))


def _json(found: dict[str, object]) -> bytes:
    return (json.dumps(found) + "\n").encode()


def serve_metrics(*, port: int = 9464, host: str = DEFAULT_HOST) -> MetricsServer:
    """Serve the metrics of all queries of this process to Prometheus.

    Args:
        port: the port; 0 takes a free one, see ``MetricsServer.port``.
        host: the address to listen on; others than this machine reach only an address of the
            network, such as ``"0.0.0.0"``.

    Raises:
        ConfigError: the port or host is wrong or in use.
    """
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ConfigError(
            f"port is {port!r:.80}, it must be a whole number from 0 to 65535\n\n"
            "Give a port, e.g. port=9464; 0 takes any free one."
        )
    if not isinstance(host, str) or not host:
        raise ConfigError(
            f"host is {host!r:.80}, it must be an address\n\nGive an address, e.g. "
            f'host="{DEFAULT_HOST}".'
        )
    return MetricsServer(port, host)
