"""``tidegate sql``: runs one statement over files and prints the final results."""

from __future__ import annotations

import click

from tidegate.cli.formats import ENDINGS


@click.command()
@click.argument("statement")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="[NAME=]PATH",
    help="Files of a stream or table; may be repeated. The first in FROM needs no name.",
)
@click.option("--format", "file_format", type=click.Choice(sorted(set(ENDINGS.values()))))
@click.option("--schema", "schemas", multiple=True, metavar="[NAME=]DDL", help="Its columns.")
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of Spark's reader."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting.")
@click.option("--output", type=click.Choice(["table", "csv", "json"]), default="table")
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=50,
    help="Maximum number of rows in a table; 0 prints all.",
)
def sql(
    statement: str,
    inputs: tuple[str, ...],
    file_format: str | None,
    schemas: tuple[str, ...],
    options: tuple[str, ...],
    settings: tuple[str, ...],
    output: str,
    rows: int,
) -> None:
    """Run a STATEMENT over files and print its final results."""
    from tidegate.cli.batch import Batch, run_batch

    batch = Batch(
        statement=statement,
        inputs=inputs,
        file_format=file_format,
        schemas=schemas,
        options=options,
        settings=settings,
    )
    run_batch(batch, output=output, most_rows=rows)
