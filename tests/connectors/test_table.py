"""The tables of sources, sinks and kinds of side output: what reads them, reads them alone."""

from __future__ import annotations

import inspect
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from docs.pages import first_cells, section
from tidegate.api.query import Query
from tidegate.config import parse_config
from tidegate.config.model import SideOutputSection
from tidegate.connectors.sinks import make_sink
from tidegate.connectors.sources import open_stream
from tidegate.connectors.table import RECORDS, SINKS, SOURCES, Guarantee, SinkKind, SourceKind
from tidegate.engine.side_output.records import REASONS
from tidegate.errors import ConfigError
from tidegate.metrics.report import Counts, Dropped
from tidegate.plan.pipeline import SinkConfig, SourceConfig
from tidegate.plan.side_output import KINDS, Drop, SideOutputKind
from tidegate.plan.statement import Relation

PIPELINE = """\
[pipeline]
checkpoint = "checkpoint"

[sources.clicks]
format = "{source}"

[transforms.counts]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"

[sinks.out]
from = "counts"
format = "{sink}"
{more}
"""


class Toy:
    """A sink that keeps its configuration."""

    def __init__(self, config: SinkConfig) -> None:
        self.config = config

    def write(self, frame, epoch):
        frame.count()


def toy_stream(*given):
    """A source that gives back what it is given."""
    return given


def undocumented(page: str, heading: str, rows: dict[str, list[str]]) -> list[str]:
    """Return the names whose row of a page is missing, or says something else."""
    told = {row[0].strip("`"): row[1:] for row in first_cells(section(page, heading))}
    return [name for name, cells in rows.items() if told.get(name) != cells]


def sink_row(kind: SinkKind) -> list[str]:
    options = (
        "Spark's writer" if kind.options is None else ", ".join(f"`{o}`" for o in kind.options)
    )
    return [
        "needed" if kind.has_path else "if it has one" if kind.has_path is None else "none",
        kind.guarantee.value,
        "yes" if kind.nested else "no",
        options,
        f"`{kind.jar}`" if kind.jar else "",
    ]


def source_row(kind: SourceKind) -> list[str]:
    return [
        "needed" if kind.has_path else "none",
        "`schema`, or found in the files" if kind.infers else "the format's own",
        kind.replay.value,
        f"`{kind.jar}`" if kind.jar else "",
    ]


def side_output_row(kind: SideOutputKind) -> str:
    return f"side_output.{kind.name}.sink"


def refusal(sink: str, more: str = "", source: str = "rate") -> str:
    with pytest.raises(ConfigError) as refused:
        parse_config(PIPELINE.format(sink=sink, more=more, source=source), Path("pipeline.toml"))
    return str(refused.value)


def test_every_sink_has_its_row_in_the_docs():
    rows = {name: sink_row(kind) for name, kind in SINKS.items()}
    assert undocumented("connectors.md", "Sinks", rows) == []
    toy = SinkKind(build="x:y", guarantee=Guarantee.IDEMPOTENT)
    assert undocumented("connectors.md", "Sinks", {"toy": sink_row(toy)}) == ["toy"]


def test_every_source_has_its_row_in_the_docs():
    rows = {name: source_row(kind) for name, kind in SOURCES.items()}
    assert undocumented("connectors.md", "Sources", rows) == []
    assert undocumented("connectors.md", "Sources", {"toy": source_row(SourceKind())}) == ["toy"]


@pytest.mark.parametrize("kind", [*SINKS.values(), *SOURCES.values()], ids=[*SINKS, *SOURCES])
def test_the_builder_of_every_row_is_there(kind):
    module, _, function = kind.build.partition(":")
    assert callable(getattr(import_module(module), function))


def test_records_are_read_back_from_sinks_that_can_hold_them_and_the_docs_list_these():
    rows = first_cells(section("side-output.md", "Replay"))
    told = {name.strip("` ") for row in rows for name in row[0].split(",")}
    for format, build in RECORDS.items():
        assert SINKS[format].nested
        module, name = build.split(":")
        assert callable(getattr(import_module(module), name))
        assert format in told


def test_a_row_is_all_that_a_new_sink_needs(monkeypatch):
    toy = SinkKind(
        build=f"{__name__}:Toy", guarantee=Guarantee.IDEMPOTENT, has_path=False, options=("key",)
    )
    assert "sinks have no such format" in refusal("consol")
    monkeypatch.setitem(SINKS, "toy", toy)
    text = PIPELINE.format(sink="toy", more='options.key = "id"', source="rate")
    config = parse_config(text, Path("pipeline.toml"))
    made = make_sink(config.sinks["out"])
    assert isinstance(made, Toy)
    assert made.config.options == {"key": "id"}
    assert "format toy has no option kee" in refusal("toy", "options.kee = 1")
    assert "format toy takes no path" in refusal("toy", 'path = "out"')


def test_a_row_is_all_that_a_new_source_needs(monkeypatch):
    assert "there is no such format" in refusal("console", source="kafkaa")
    kind = SourceKind(build=f"{__name__}:toy_stream", has_path=True)
    monkeypatch.setitem(SOURCES, "kafkaa", kind)
    source = SourceConfig(name="r", format="kafkaa", relation=Relation(name="r", columns=None))
    assert open_stream("session", source, "policy") == ("session", source, "policy")
    assert "path is missing, and format kafkaa needs one" in refusal("console", source="kafkaa")


def test_options_of_the_console_are_checked():
    assert "format console has no option row\n" in refusal("console", "options.row = 5")
    config = SinkConfig(name="out", format="console", options={"rows": "five"})
    with pytest.raises(ConfigError, match=r'sinks\.out: options\.rows = "five"'):
        make_sink(config)
    assert make_sink(SinkConfig(name="out", format="console", options={"rows": "5"})).rows == 5


def test_every_kind_of_side_output_has_its_row_in_the_docs():
    rows = {row[0].strip("`") for row in first_cells(section("configuration.md", "Side output"))}
    assert {side_output_row(kind) for kind in KINDS} <= rows
    toy = SideOutputKind(name="toy", argument="toys", example="toys", reasons=())
    assert side_output_row(toy) not in rows


def test_every_kind_of_side_output_has_its_key_argument_counter_and_reasons():
    assert list(SideOutputSection.model_fields) == [kind.name for kind in KINDS]
    assert {kind.argument for kind in KINDS} <= set(inspect.signature(Query.start).parameters)
    assert {kind.name for kind in KINDS} <= {field.name for field in fields(Counts)}
    assert set(REASONS.values()) <= {(kind.name, each) for kind in KINDS for each in kind.reasons}
    assert {drop.value for drop in Drop} == {field.name for field in fields(Dropped)}
