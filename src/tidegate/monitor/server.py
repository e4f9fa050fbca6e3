"""Serves the page of the monitor until it is closed."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType

from tidegate.errors import ConfigError
from tidegate.monitor.guards import Guarded
from tidegate.monitor.watch import RemoteReaders, Watch

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9465


class MonitorServer:
    """Serves the page at ``http://host:port/`` in a thread of its own.

    Args:
        folders: the checkpoints, each of a transform or of a pipeline.
        port: the port; 0 takes a free one.
        host: the address to listen on.
        remote: makes readers of folders that are not on this machine.

    Attributes:
        port: the port that it listens on.

    Raises:
        ConfigError: the libraries that serve are not installed, or the port cannot be used.
    """

    def __init__(
        self,
        folders: Sequence[str],
        *,
        port: int = DEFAULT_PORT,
        host: str = DEFAULT_HOST,
        remote: RemoteReaders | None = None,
    ) -> None:
        for name in ("starlette", "uvicorn"):
            if find_spec(name) is None:
                raise ConfigError(
                    f"the monitor's page is served by {name}, which is not installed\n\n"
                    "Run: pip install 'tidegate[monitor]'"
                )
        import uvicorn

        from tidegate.monitor.app import make_app

        self.host = host
        self._socket = _listening(host, port)
        self.port = int(self._socket.getsockname()[1])
        self.watch = Watch(folders, remote)
        config = uvicorn.Config(
            Guarded(make_app(self.watch), names=[host]),
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="tidegate-monitor", daemon=True
        )
        self.watch.start()
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page, for a browser on this machine."""
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)
        return f"http://[{shown}]:{self.port}/" if ":" in shown else f"http://{shown}:{self.port}/"

    def close(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self.watch.stop()
        self._socket.close()

    def __enter__(self) -> MonitorServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigError: the port or the host cannot be used.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"the monitor cannot be served on {host}:{port}: {reason}\n\n"
            "Choose another port; 0 takes any free one."
        ) from error
