"""``tidegate check`` and ``tidegate explain``: answers in under a second, without Spark.

``check --spark`` starts Spark to check types too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.cli.planning import Planned

_ARGUMENTS = (
    click.argument("file", required=False, type=click.Path(path_type=Path)),
    click.option("--sql", help="A statement instead of a file."),
    click.option(
        "--schema",
        "schemas",
        multiple=True,
        metavar="[NAME=]DDL",
        help='The columns of a stream or table in --sql, e.g. "ts TIMESTAMP, v INT".',
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting for --sql, e.g. watermark_lag=5m.",
    ),
)


def _with_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    for argument in reversed(_ARGUMENTS):
        command = argument(command)
    return command


@click.command()
@_with_arguments
@click.option(
    "--spark", "with_spark", is_flag=True, help="Start Spark and let its analyzer check types."
)
def check(
    file: Path | None,
    sql: str | None,
    schemas: tuple[str, ...],
    settings: tuple[str, ...],
    with_spark: bool,
) -> None:
    """Check a pipeline FILE (TOML), an SQL file or a statement.

    For a pipeline, also check that its inputs exist and its folders are writable.
    """
    from tidegate.cli.runnable import unready

    plans, errors = _plans(file, sql, schemas, settings)
    _end_with(errors + [str(error) for error in unready(plans, file)])
    if with_spark:
        from tidegate.cli.types import wrong_types

        _end_with([str(error) for error in wrong_types(plans, file)])
    _print_warnings(plans)
    for planned in plans:
        click.echo(f"{planned.name}: ok")
        for line in planned.takers():
            click.echo(f"  {line}")


@click.command()
@_with_arguments
@click.option("--json", "as_json", is_flag=True, help="Print the plans as JSON.")
@click.option("--diff", is_flag=True, help="Compare with the checkpoint instead.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), help="With --diff: another checkpoint."
)
def explain(
    file: Path | None,
    sql: str | None,
    schemas: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
    diff: bool,
    checkpoint: Path | None,
) -> None:
    """Explain how the statements of a pipeline FILE, an SQL file or a statement run.

    With --diff, say whether they fit the checkpoint, and what differs.
    """
    if checkpoint is not None and not diff:
        raise click.UsageError("--checkpoint goes with --diff.")
    plans = _planned(file, sql, schemas, settings)
    if diff:
        from tidegate.cli.diff import print_fits

        sys.exit(0 if print_fits(plans, file, checkpoint, as_json=as_json) else 1)
    if as_json:
        # A single statement prints an object instead of a list, so scripts need not unwrap it.
        answer = [planned.json() for planned in plans]
        click.echo(json.dumps(answer if len(answer) > 1 else answer[0], indent=2))
        return
    for planned in plans:
        if len(plans) > 1:
            click.echo(f"-- {planned.name}")
        click.echo(planned.text())


def _planned(
    file: Path | None, sql: str | None, schemas: tuple[str, ...], settings: tuple[str, ...]
) -> list[Planned]:
    """Return the plans and print warnings; if one fails, print all errors and exit."""
    plans, errors = _plans(file, sql, schemas, settings)
    _end_with(errors)
    _print_warnings(plans)
    return plans


def _print_warnings(plans: list[Planned]) -> None:
    for planned in plans:
        for warning in planned.warnings():
            click.echo(f"{planned.name}: warning: {warning}", err=True)


def _plans(
    file: Path | None, sql: str | None, schemas: tuple[str, ...], settings: tuple[str, ...]
) -> tuple[list[Planned], list[str]]:
    """Return the plans, and the errors of the statements that have none."""
    from tidegate.cli.planning import PlanRequest, plan_requested

    plans, errors = [], []
    for answer in plan_requested(
        PlanRequest(file=file, sql=sql, schemas=schemas, settings=settings)
    ):
        if isinstance(answer, TidegateError):
            errors.append(str(answer))
        else:
            plans.append(answer)
    return plans, errors


def _end_with(errors: list[str]) -> None:
    """Print the errors and exit, if there are any."""
    if errors:
        click.echo("\n\n".join(errors), err=True)
        sys.exit(1)
