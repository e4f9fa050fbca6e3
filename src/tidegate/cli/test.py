"""``tidegate test``: runs cases, which are batches of rows with their expected results."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("cases", nargs=-1, required=True, type=click.Path(path_type=Path))
def test(cases: tuple[Path, ...]) -> None:
    """Run the cases in files (.case)."""
    from tidegate.cases import run_files

    sys.exit(1 if run_files(cases) else 0)
