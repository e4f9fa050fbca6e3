"""``tidegate replay``: runs the rows of a side output through their statement again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidegate.plan.pipeline import PipelineConfig, TransformConfig


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("records")
@click.option("--into", required=True, metavar="FOLDER", help="A new folder for the corrections.")
@click.option("--transform", help="The transform that wrote the records, if there are several.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    help="A kind of records to run; may be repeated. [all but duplicate]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "json", "orc"]),
    default="parquet",
    show_default=True,
    help="The format of the corrections.",
)
@click.option("--any-plan", is_flag=True, help="Run records of other plans, too.")
@click.option(
    "--keep-repeats",
    is_flag=True,
    help="Run every record of a topic, also one that is equal to another of its epoch.",
)
def replay(
    file: Path,
    records: str,
    into: str,
    transform: str | None,
    kinds: tuple[str, ...],
    form: str,
    any_plan: bool,
    keep_repeats: bool,
) -> None:
    """Run the rows in RECORDS again: a side sink of the pipeline in FILE, or its folder.

    The results of these rows alone are written as corrections, which name the window_id that they
    belong to.
    """
    from tidegate.cli.replaying import Asked, run_replay
    from tidegate.config import load_config

    config = load_config(file)
    asked = Asked(
        records=records,
        into=into,
        kinds=kinds,
        form=form,
        any_plan=any_plan,
        keep_repeats=keep_repeats,
    )
    for line in run_replay(config, _chosen(config, transform), asked):
        click.echo(line)


def _chosen(config: PipelineConfig, name: str | None) -> TransformConfig:
    """The transform that is asked for, or the only one."""
    from tidegate.names import listed, suggestion

    names = list(config.transforms)
    if name is None and len(names) > 1:
        raise click.UsageError(f"--transform is missing: {config.file.name} has {listed(names)}.")
    if name is not None and name not in names:
        mend = suggestion(name, names, otherwise=f"There is {listed(names)}.")
        raise click.UsageError(f"--transform {name}: there is no such transform. {mend}")
    return config.transforms[name or names[0]]
