"""What stands beside the queries of a run: metrics and health checks, the monitor, the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tidegate.cli.progress import Note, Progress
from tidegate.cli.watching import readers_by_running_spark
from tidegate.connectors.transient import TRANSIENT
from tidegate.environment import without_values
from tidegate.metrics.health import HEALTH
from tidegate.metrics.recorder import RECORDER
from tidegate.metrics.server import serve_metrics
from tidegate.monitor.server import MonitorServer
from tidegate.plan.pipeline import PipelineConfig

_LOG = logging.getLogger("tidegate")


@contextmanager
def serving_metrics(config: PipelineConfig, names: Sequence[str]) -> Iterator[None]:
    """Serve metrics and health meanwhile, if there is a port."""
    port, host = config.metrics_port, config.metrics_host
    for name in names:
        for each in TRANSIENT:
            RECORDER.restarted(name, each.cause, times=0)
    HEALTH.expect(names)
    try:
        with nullcontext() if port is None else serve_metrics(port=port, host=host):
            yield
    finally:
        HEALTH.forget(names)


def serving_monitor(config: PipelineConfig) -> AbstractContextManager[object]:
    """Serve the page of the monitor meanwhile, if there is a port."""
    port = config.monitor_port
    if port is None:
        return nullcontext()
    server = MonitorServer(
        [config.checkpoint], port=port, host=config.monitor_host, remote=readers_by_running_spark
    )
    _LOG.info("monitor at %s", server.url)
    return server


@contextmanager
def logging_to(progress: Progress) -> Iterator[None]:
    """Show Tidegate's log lines above the progress."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            progress.note(
                Note(
                    text=without_values(record.getMessage()),
                    level=record.levelname.lower(),
                    event=getattr(record, "event", "log"),
                    facts=getattr(record, "facts", {}),
                )
            )

    log = logging.getLogger("tidegate")
    handlers, level, propagate = log.handlers, log.level, log.propagate
    log.handlers, log.propagate = [Handler()], False
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)
