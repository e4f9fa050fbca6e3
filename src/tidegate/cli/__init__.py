"""The command line. Spark is imported only by the commands that run something."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import click

from tidegate.cli.check import check, explain
from tidegate.cli.demo import demo
from tidegate.cli.exits import INTERRUPTED, exit_code_of
from tidegate.cli.init import init
from tidegate.cli.messages import message_of, stack_of
from tidegate.cli.monitor import monitor
from tidegate.cli.query import sql
from tidegate.cli.replay import replay
from tidegate.cli.run import run
from tidegate.cli.state import state
from tidegate.cli.test import test
from tidegate.cli.top import top

COMMANDS = (check, explain, run, sql, test, replay, state, monitor, top, init, demo)

# Read by spark/log4j2.properties.
LOG_LEVEL = "TIDEGATE_SPARK_LOG"


class Tidegate(click.Group):
    """The commands in their order. A failure ends in one message and an exit code of ``exits``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name for command in COMMANDS if command.name]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of our output is gone; click handles that
            if ctx.params.get("verbose"):
                click.echo(stack_of(error), err=True)
            click.echo(message_of(error), err=True)
            sys.exit(exit_code_of(error))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the logs of Spark and py4j; errors are reported in one line."""
    log, before = logging.getLogger("py4j"), os.environ.get(LOG_LEVEL)
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    os.environ[LOG_LEVEL] = before or "off"
    try:
        yield
    finally:
        log.setLevel(level)
        if before is None:
            del os.environ[LOG_LEVEL]


@click.group(cls=Tidegate, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--verbose", is_flag=True, help="Show stack traces, and what Spark logs.")
@click.version_option(version("tidegate"), prog_name="tidegate")
@click.pass_context
def main(ctx: click.Context, verbose: bool) -> None:
    """Streaming window SQL for Apache Spark."""
    if not verbose:
        ctx.with_resource(_quiet())


for _command in COMMANDS:
    main.add_command(_command)
