"""The command line. Spark is imported only by the commands that run something."""

from __future__ import annotations

import sys
from importlib.metadata import version

import click

from tidegate.cli.check import check, explain
from tidegate.cli.demo import demo
from tidegate.cli.query import sql
from tidegate.cli.run import run
from tidegate.cli.test import test
from tidegate.errors import TidegateError

COMMANDS = (check, explain, run, sql, test, demo)


class Tidegate(click.Group):
    """The commands in their order; what a user can mend ends in a message and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name for command in COMMANDS if command.name]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except TidegateError as error:
            click.echo(str(error), err=True)
        except Exception as error:
            said = _said_by_spark(error)
            if said is None:
                raise
            click.echo(said, err=True)
        sys.exit(1)


def _said_by_spark(error: Exception) -> str | None:
    """Return the message of an error of Spark's without its traces; None for any other error."""
    if not type(error).__module__.startswith(("pyspark.errors", "py4j")):
        return None
    message = str(error).partition("JVM stacktrace:")[0].partition("\n\tat ")[0]
    return f"Spark: {message.strip()}"


@click.group(cls=Tidegate, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("tidegate"), prog_name="tidegate")
def main() -> None:
    """Streaming window SQL for Apache Spark."""


for _command in COMMANDS:
    main.add_command(_command)
