"""Which transforms of a pipeline read their source together, in one query of Spark.

    [transforms.per_user]  FROM clicks  --+
                                          +--  one query, Spark's progress in checkpoint/per_user
    [transforms.per_page]  FROM clicks  --+

Transforms that begin together share a query if nothing speaks against it. From then on their
checkpoints say so: the progress of Spark is in that of one of them, with the id of its query, and
the states of all name this id. So a restart finds the queries again, in whatever order the
transforms are in the file. A transform with progress of its own keeps its query. One that is new
begins at the start of its source, so it does not join a query that has committed a batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tidegate.connectors.table import SOURCES
from tidegate.errors import ConfigError, StateError
from tidegate.names import listed
from tidegate.state.files import Files
from tidegate.state.manifest_log import ManifestLog

if TYPE_CHECKING:
    from tidegate.cli.planning import Planned
    from tidegate.plan.pipeline import PipelineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A query of Spark that reads a source.

    Attributes:
        names: its transforms, in the order of their steps.
        progress: the transform in whose checkpoint Spark's progress is; it may have been removed
            from the pipeline.
    """

    names: tuple[str, ...]
    progress: str

    @property
    def first(self) -> str:
        """The transform that is started; the others run beside it."""
        return self.names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The queries of a pipeline.

    Attributes:
        queries: one for each source that is read, at least.
        alone: why a transform does not read its source together with others that read it too, by
            its name, and what to do about it, if anything can be done.
    """

    queries: tuple[Reading, ...]
    alone: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Reading | None:
        """Return the query in which a transform reads its source, None if it reads none."""
        return next((each for each in self.queries if name in each.names), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """How a transform has begun, by its checkpoint.

    Attributes:
        query_id: the id of the query of Spark whose progress is in the checkpoint.
        ran: whether that query has committed a batch.
        state_of: the id of the query whose batches are in the state.
    """

    query_id: str | None = None
    ran: bool = False
    state_of: str | None = None


# The id of a query whose file cannot be read.
_UNKNOWN = "unknown"

OpenFiles: TypeAlias = "Callable[[str], Files]"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Reads how the transforms of a pipeline have begun.

    Args:
        files: gives the files of a folder of the pipeline's checkpoint, by its name; "." is the
            checkpoint itself.
    """

    files: OpenFiles

    def of(self, name: str) -> Began:
        """Return how a transform has begun."""
        state_of = None
        try:
            newest = ManifestLog(self.files(f"{name}/tidegate")).newest()
            if newest is not None and newest.batch_id >= 0:
                state_of = newest.query_id
        except StateError:
            pass  # The start of the query tells of it.
        query_id = self._query_id(name)
        ran = query_id is not None and bool(_entries(self.files(name), "commits"))
        return Began(query_id=query_id, ran=ran, state_of=state_of)

    def with_progress(self, query_id: str) -> str | None:
        """Return the folder that has the progress of a query, None if there is none."""
        names = sorted(_entries(self.files("."), "."))
        return next((name for name in names if self._query_id(name) == query_id), None)

    def _query_id(self, name: str) -> str | None:
        try:
            text = self.files(name).read("metadata")
            return str(json.loads(text)["id"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return _UNKNOWN


def _entries(files: Files, folder: str) -> list[str]:
    try:
        return [entry.name for entry in files.entries(folder)]
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class _Reader:
    """A transform that reads a source.

    Attributes:
        name: its name.
        source: the source.
        key: only transforms with the same key can read it together: the source, what a malformed
            record means, and whether time alone brings batches.
        unfit: why it cannot read it together with any; None: it can.
        unwise: why it had better not, unless it is told to; None: it had.
    """

    name: str
    source: str
    key: tuple[object, ...]
    unfit: str | None
    unwise: str | None


def readings_of(
    plans: Sequence[Planned], config: PipelineConfig, checkpoints: Checkpoints | None
) -> Readings:
    """Return the queries of a pipeline.

    Args:
        plans: its transforms, in the order of the file.
        config: the pipeline file.
        checkpoints: how they have begun; None: that is not known, and they are taken as new.

    Raises:
        ConfigError: the state of a transform is of a query that it can no longer be part of.
    """
    readers = {each.name: each for each in _readers(plans, config)}
    began = {name: Began() if checkpoints is None else checkpoints.of(name) for name in readers}
    homes: dict[str, str] = {}
    own = [name for name in readers if config.transforms[name].reads_with is None]
    for name in own:
        home = _home(name, began[name], checkpoints)
        if home is not None:
            homes[name] = home
            _check_fits(name, home, readers, config)
    new = [name for name in own if name not in homes]
    # A query that has not committed a batch runs its first one for all that are there.
    open_ = [name for name in own if homes.get(name) == name and not began[name].ran]
    for name in new:
        mine = readers[name]
        fits = (each for each in open_ if _company(mine, readers[each]) is None)
        homes[name] = name if mine.unwise else next(fits, name)
        if homes[name] == name:
            open_.append(name)
    for name in readers:
        leader = config.transforms[name].reads_with
        if leader is not None:
            homes[name] = homes.get(leader, leader)
    queries = []
    for home in dict.fromkeys(homes.values()):
        names = [name for name in readers if homes[name] == home]
        ordered = sorted(names, key=lambda name: name != home)
        queries.append(Reading(names=tuple(ordered), progress=home))
    found = Readings(queries=tuple(queries))
    alone = {name: why for name in readers if (why := _why_alone(name, found, readers, new))}
    return Readings(queries=found.queries, alone=alone)


def _home(name: str, began: Began, checkpoints: Checkpoints | None) -> str | None:
    """The transform in whose checkpoint the progress of a transform is; None: it is new."""
    if began.query_id is not None:
        return name
    if began.state_of is None or checkpoints is None:
        return None
    # If that progress is gone, the start of a query of its own is refused with words.
    return checkpoints.with_progress(began.state_of) or name


def _check_fits(
    name: str, home: str, readers: Mapping[str, _Reader], config: PipelineConfig
) -> None:
    """Refuse a transform that can no longer be part of the query that its state is of."""
    if home == name:
        return
    unfit = readers[name].unfit
    if unfit is None and home in readers:
        unfit = readers[home].unfit or _company(readers[name], readers[home], ticks=False)
    if unfit is None:
        return
    from tidegate.config import explain_at

    key = "reads_alone" if config.transforms[name].reads_alone else ""
    what = (
        f"{name} cannot go on by itself: {unfit}, but its state is of the query that it has in "
        f"common with {home}, and goes on from where that one is\n\nTake the change back; or end "
        f"the pipeline once with --drain, delete {config.checkpoint}/{name}, and start {name} anew."
    )
    raise ConfigError(explain_at(config, ("transforms", name, key), what))


def _readers(plans: Iterable[Planned], config: PipelineConfig) -> Iterable[_Reader]:
    plans, known = list(plans), config.sources
    for planned in plans:
        if planned.reads is not None:
            continue
        prepare = planned.compiled.physical.prepare
        policy = planned.compiled.physical.side_output.error_policy
        ticks = needs_ticks(planned, plans)
        sources = tuple(config.transforms[planned.name].sources)
        unfit = None
        if config.transforms[planned.name].reads_alone:
            unfit = "reads_alone is set"
        elif prepare.derives or (prepare.source.name not in config.sources and not sources):
            unfit = "FROM does more than read it"
        source = prepare.source.name if not sources else listed(sources)
        key = (prepare.source.name, sources, policy, ticks)
        read = (known[each].format for each in sources or (prepare.source.name,) if each in known)
        columnar = next((each for each in read if each in SOURCES and SOURCES[each].columnar), None)
        unwise = columnar and f"rows of {columnar} are read again more quickly than they are kept"
        yield _Reader(planned.name, source, key, unfit, unwise)


def needs_ticks(planned: Planned, plans: Iterable[Planned]) -> bool:
    """Return whether time alone can do something in a transform, or in one that reads it."""
    below = (each for each in plans if each.reads == planned.name)
    return planned.compiled.physical.needs_ticks or any(needs_ticks(each, plans) for each in below)


def _company(one: _Reader, other: _Reader, *, ticks: bool = True) -> str | None:
    """Why two transforms cannot read a source together; None: they can."""
    for each in (one, other):
        if each.unfit is not None:
            return each.unfit if each is one else f"{other.name} is read alone"
    if one.key[:2] != other.key[:2]:
        return f"it does not read {other.source}"
    if one.key[2] != other.key[2]:
        return f"its error_policy is not that of {other.name}"
    if ticks and one.key[3] != other.key[3]:
        return f"{'it' if one.key[3] else other.name} needs ticks, and that is for all of a query"
    return None


def _why_alone(
    name: str, found: Readings, readers: Mapping[str, _Reader], new: Sequence[str]
) -> str | None:
    """Why a transform does not read its source together with another one that reads it too."""
    mine, own = readers[name], found.of(name)
    others = [each for each in readers.values() if each.source == mine.source]
    other = next((each for each in others if found.of(each.name) != own), None)
    if other is None or own is None or len(own.names) > 1:
        return None
    if mine.unfit or mine.unwise:
        return mine.unfit or mine.unwise
    other = next((each for each in others if found.of(each.name) != own and not each.unfit), other)
    why = _company(mine, other)
    if why is not None:
        return why
    theirs = found.of(other.name)
    leader = other.name if theirs is None else theirs.first
    if name in new:
        return (
            f"{leader} has begun before it, and would bring it nothing of what came earlier; "
            f'with reads_with = "{leader}" it begins with the next batch'
        )
    if other.name in new:
        return None
    return (
        f"it has begun by itself, and its checkpoint goes on so; to join {leader}, end the "
        f"pipeline once with --drain, delete the checkpoint of {name}, and set "
        f'reads_with = "{leader}"'
    )
