"""Forgetting shards that are gone for good, so that they no longer hold the watermark.

It is a step of its own between two batches, with a manifest of its own, as a drain is: the state
without these shards, and all else as before. W stays; the next batch moves it, as any batch does,
from the shards that are left, and closes what is due then. So nothing is emitted here, and what the
next batch does follows from the state before it, from its rows and its clock, as ever.

If a batch has announced results that may be with a sink already, it must come first: its epoch is
the one that this step would take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.errors import StateError
from tidegate.names import listed, nearest
from tidegate.state.cleaning import segment_name
from tidegate.state.files import Files
from tidegate.state.intents import find_intent
from tidegate.state.manifest import Manifest
from tidegate.state.manifest_log import ManifestLog, manifest_name, reason
from tidegate.state.rollback import check_no_rollback
from tidegate.state.shard_map import Shard
from tidegate.state.shards import ShardTable, with_shards
from tidegate.state.watermark import SINGLE_SHARD
from tidegate.state.writers import check_claim, check_stopped, claim, displaced

# What stands for the shard whose value is NULL, unless a shard has this text.
NULL = "NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What has been forgotten.

    Attributes:
        shards: the shards, by id.
        manifest: the state after it.
    """

    shards: Mapping[str, Shard]
    manifest: Manifest

    @property
    def slowest(self) -> Shard | None:
        """The shard with the least event time of those that are left, None if none is."""
        left = self.manifest.watermark.shards.values()
        return min(left, key=lambda shard: shard.event_time_us, default=None)


def forget_shards(
    files: Files, checkpoint: str, values: Sequence[str], *, stopped: bool = False
) -> Forgotten:
    """Remove shards from the newest state of a checkpoint.

    Args:
        files: its folder ``tidegate``.
        checkpoint: its name in messages.
        values: the shards, by their value as text, or by their id.
        stopped: the user has made sure that no query runs on the checkpoint.

    Raises:
        StateError: there is no such shard, a batch must be finished first, or a query may be
            running; nothing has been changed then.
    """
    check_no_rollback(files)
    newest = ManifestLog(files).newest()
    if newest is None:
        raise StateError(
            f"{checkpoint} holds no state\n\nGive the checkpoint of a query that has run a batch."
        )
    before = with_shards(files, newest)
    ids = [_shard(before.watermark.shards, value, checkpoint) for value in values]
    check_stopped(files, stopped=stopped)
    _check_nothing_pending(files, before, checkpoint)
    writer = claim(files, before).writer
    # A process that was past its last check may have announced or committed a step since.
    _check_nothing_pending(files, before, checkpoint)
    shards = {id: each for id, each in before.watermark.shards.items() if id not in ids}
    epoch = before.epoch + 1
    table = ShardTable(files, lambda: segment_name(epoch, writer, "shards"))
    try:
        after = replace(
            before,
            epoch=epoch,
            writer=writer,
            watermark=replace(before.watermark, shards=shards),
            tables=replace(before.tables, shards=table.after(before, shards)),
        )
        check_claim(files, writer)
        files.put_if_absent(manifest_name(epoch), after.to_json())
    except FileExistsError:
        raise displaced(files, writer, ManifestLog(files).read(epoch).writer) from None
    except OSError as error:
        raise StateError(
            f"checkpoint {checkpoint} cannot be written: {reason(error)}\n\nNo shard has been "
            "forgotten. Make the folder writable, then run the command again."
        ) from error
    return Forgotten(shards={id: before.watermark.shards[id] for id in ids}, manifest=after)


def _shard(shards: Mapping[str, Shard], value: str, checkpoint: str) -> str:
    """The id of a shard."""
    if SINGLE_SHARD in shards:
        raise StateError(
            f"{checkpoint} has no shards: the whole stream has one watermark\n\nThe setting shard "
            "divides it; idle_timeout lets W go on while no rows come."
        )
    named = [id for id, shard in shards.items() if shard.name == value]
    if not named and value == NULL:
        named = [id for id, shard in shards.items() if shard.name is None]
    if not named and value in shards:
        return value
    if len(named) == 1:
        return named[0]
    if named:
        raise StateError(
            f"{checkpoint} has {len(named)} shards {value}, which differ only in how they are "
            f"written\n\nGive the id of one: {listed(named)}; --shards --json shows more of them."
        )
    known = sorted(NULL if shard.name is None else shard.name for shard in shards.values())
    near = nearest(value, known)
    mend = f"Did you mean {near}?" if near else f"It has {listed(known)}." if known else ""
    raise StateError(
        f"{checkpoint} has no shard {value}\n\n{mend or 'It has none.'} --shards lists them."
    )


def _check_nothing_pending(files: Files, before: Manifest, checkpoint: str) -> None:
    """Refuse while a step has announced results, or a later one has been committed."""
    try:
        epochs, pending = ManifestLog(files).epochs(), find_intent(files, before.epoch + 1)
    except OSError as error:
        raise StateError(
            f"checkpoint {checkpoint} cannot be read: {reason(error)}\n\nMake it readable."
        ) from error
    if epochs[-1] != before.epoch:
        raise StateError(
            f"a query has written epoch {epochs[-1]} of checkpoint {checkpoint} meanwhile\n\n"
            "Stop it first."
        )
    if pending is None:
        return
    what = f"batch {pending.batch_id}" if pending.is_batch else f"a {pending.kind}"
    raise StateError(
        f"{what} of {checkpoint} has not been committed, but its results may have been emitted"
        "\n\nIt must be finished before a shard is forgotten: start the query, which does that, "
        "stop it, and run this command again."
    )
