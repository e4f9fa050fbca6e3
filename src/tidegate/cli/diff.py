"""``tidegate explain --diff``: whether changed statements fit their checkpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from tidegate.cli.planning import Planned
from tidegate.cli.readings import needs_ticks
from tidegate.inspection.difference import MAY_CHANGE, Fit, fit_of
from tidegate.paths import local_path


def print_fits(
    plans: Sequence[Planned], file: Path | None, checkpoint: Path | None, *, as_json: bool
) -> bool:
    """Print how planned statements fit their checkpoints; return whether all do.

    Args:
        plans: the statements.
        file: the file that they come from; None: the command line.
        checkpoint: a checkpoint to compare with; None: that of the pipeline.
        as_json: print JSON.

    Raises:
        click.UsageError: a statement has no checkpoint, or it is not on this machine.
        StateError: a checkpoint cannot be read.
    """
    fits = {
        planned.name: fit_of(
            planned.compiled.physical,
            _folder(planned.name, file, checkpoint),
            ticks=_needs_ticks(planned, plans),
        )
        for planned in plans
    }
    if as_json:
        answers = [_facts(name, fit) for name, fit in fits.items()]
        click.echo(json.dumps(answers if len(answers) > 1 else answers[0], indent=2))
    else:
        for name, fit in fits.items():
            _print(name, fit)
        click.echo("\nThese may change, and the query goes on with its state:")
        for each in MAY_CHANGE:
            click.echo(f"  {each}")
    return all(fit.fits for fit in fits.values())


def _needs_ticks(planned: Planned, plans: Sequence[Planned]) -> bool:
    """Whether a transform needs ticks, or one that runs in the query of which it is the first."""
    beside = [each for each in plans if each.reads_with == planned.name]
    return needs_ticks(planned, plans) or any(needs_ticks(each, plans) for each in beside)


def _folder(name: str, file: Path | None, checkpoint: Path | None) -> Path:
    """The checkpoint of a statement; a given one may be that of the whole pipeline."""
    if checkpoint is not None:
        of_transform = checkpoint / name
        return of_transform if (of_transform / "tidegate").is_dir() else checkpoint
    if file is None or file.suffix == ".sql":
        raise click.UsageError("--diff of a statement needs --checkpoint FOLDER.")
    from tidegate.config import load_config

    text = load_config(file).checkpoint
    folder = local_path(text)
    if folder is None:
        raise click.UsageError(
            f"the checkpoint {text} is not on this machine: copy it, and give --checkpoint FOLDER."
        )
    return folder / name


def _print(name: str, fit: Fit) -> None:
    if fit.epoch is None:
        click.echo(f"{name}: {fit.checkpoint} holds no state: a start begins there")
        return
    place = f"{fit.checkpoint}, epoch {fit.epoch}"
    if fit.fits:
        click.echo(f"{name}: fits {place}")
    else:
        names = ", ".join(each.what for each in fit.differences)
        click.echo(f"{name}: does not fit {place}; this differs: {names}\n")
        for each in fit.differences:
            click.echo(f"  {each.what}: {each.in_checkpoint}  in the checkpoint")
            click.echo(f"  {' ' * len(each.what)}  {each.in_query}  in the query")
        click.echo("\nStart the changed query with a new checkpoint, or change it back.")
    for what in fit.unknown:
        click.echo(f"{name}: only a start can compare {what}")


def _facts(name: str, fit: Fit) -> dict[str, object]:
    return {
        "name": name,
        "checkpoint": fit.checkpoint,
        "epoch": fit.epoch,
        "fits": fit.fits,
        "differences": [asdict(each) for each in fit.differences],
        "unknown": list(fit.unknown),
        "may_change": list(MAY_CHANGE),
    }
