"""``tidegate init``: writes a commented pipeline for a sample file."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("sample", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("pipeline.toml"),
    help="The file to write; pipeline.toml by default.",
)
def init(sample: Path, output: Path) -> None:
    """Write a commented pipeline for a SAMPLE: a file of csv, json or parquet, or a folder.

    Columns, event time and a group key are guessed from its first records, without Spark.
    """
    from tidegate.cli.new_pipeline import write_pipeline

    write_pipeline(sample, output)
    click.echo(
        f"{output} is written. Look at its comments, then run:\n\n"
        f"  tidegate check {output}\n  tidegate run {output} --once"
    )
