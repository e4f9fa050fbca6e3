"""A pipeline file for a sample: its columns, and a guess at event time, group key and a value."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate.cli.formats import format_of
from tidegate.cli.planning import plan_transform
from tidegate.config import parse_config
from tidegate.connectors.columns import MOST_RECORDS, ddl_of, sample_columns
from tidegate.errors import ConfigError
from tidegate.names import quoted
from tidegate.plan.statement import Column

_FORMATS = ("csv", "json", "parquet")

# Names of columns that likely hold the time of a row.
_TIMES = re.compile(
    r"(event_?)?(ts|time|timestamp|date_?time|at)|.*(_ts|_time|_at|timestamp)", re.I
)
# The digits of a time of today in each unit.
_DIGITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}
_NUMBERS = ("BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL")

# From which span of the sample on a window is how long, the longest first.
_DAY_S = 86_400
_WINDOWS = (
    (60 * _DAY_S, "('dd', 1)", "day", "1h"),
    (2 * _DAY_S, "('hh', 1)", "hour", "5m"),
    (0, "('mi', 1)", "minute", "10s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample and what is guessed from it.

    Attributes:
        file: the file that was read.
        path: the path of the source, for the pipeline file.
        format: its format.
        name: the name of the source.
        columns: its columns.
        records: its first records.
    """

    file: Path
    path: str
    format: str
    name: str
    columns: Sequence[Column]
    records: Sequence[dict[str, Any]]

    @property
    def time(self) -> Column | None:
        """The column with the event time."""
        stamps = [column for column in self.columns if column.type == "TIMESTAMP"]
        named = [column for column in stamps if _TIMES.fullmatch(column.name)]
        numbers = [column for column in self.columns if self.unit_of(column) is not None]
        return next(iter([*named, *stamps, *numbers]), None)

    def unit_of(self, column: Column) -> str | None:
        """The unit of a column of numbers that are times, None for others."""
        if column.type != "BIGINT" or not _TIMES.fullmatch(column.name):
            return None
        known = [str(value) for value in self.values(column) if value not in (None, "")]
        units = {_DIGITS.get(len(value)) for value in known}
        return units.pop() if len(units) == 1 else None

    @property
    def key(self) -> Column | None:
        """A column of text whose values repeat."""
        for column in self.columns:
            values = self.values(column)
            different = len(set(map(str, values)))
            if column.type == "STRING" and different <= max(1, len(values) // 2):
                return column
        return None

    @property
    def value(self) -> Column | None:
        """A column of numbers that are neither a time nor an id."""
        return next(
            (
                column
                for column in self.columns
                if column.type.startswith(_NUMBERS)
                and column != self.time
                and not re.search(r"(^|_)id$", column.name, re.IGNORECASE)
            ),
            None,
        )

    @property
    def span_s(self) -> float:
        """The seconds between the first and the last event time."""
        time = self.time
        if time is None or time.type != "TIMESTAMP":
            return 0
        texts = [str(value).strip() for value in self.values(time) if value not in (None, "")]
        moments = [datetime.fromisoformat(text).timestamp() for text in texts]
        return max(moments, default=0) - min(moments, default=0)

    def values(self, column: Column) -> list[Any]:
        """The values of a column."""
        return [record.get(column.name) for record in self.records]


def write_pipeline(sample: Path, output: Path) -> None:
    """Write a pipeline for a sample.

    Raises:
        ConfigError: the sample cannot be read, or the output exists.
    """
    if output.exists():
        raise ConfigError(f"{output} exists\n\nName another file with --output, or move it away.")
    text = pipeline_text(read_sample(sample, output.parent), output.name)
    config = parse_config(text, output)
    for transform in config.transforms.values():
        plan_transform(config, transform)
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(
            f"{output} cannot be written: {error.strerror}\n\nName another file with --output."
        ) from None


def read_sample(path: Path, folder: Path) -> Sample:
    """Return a sample; ``folder`` is that of the pipeline file.

    Raises:
        ConfigError: it cannot be read, or its format is not one of csv, json, parquet.
    """
    file_format = format_of(str(path))
    if not path.exists() or file_format not in _FORMATS:
        what = "does not exist" if not path.exists() else "is not of a known format"
        raise ConfigError(
            f"{path} {what}\n\nGive a file that ends with .csv, .json, .jsonl, .ndjson or "
            ".parquet, or a folder with such files."
        )
    file, name = path, path.name.partition(".")[0]
    # A stream reads a folder or a pattern, for files that are still to come.
    pattern = path.parent / f"*{''.join(path.suffixes)}"
    if path.is_dir():
        files = (each for each in sorted(path.rglob("*")) if format_of(str(each)) == file_format)
        file, pattern = next(files), path
    columns, records = sample_columns(file, file_format)
    return Sample(
        file=file,
        path=Path(os.path.relpath(pattern, folder)).as_posix(),
        format=file_format,
        name=re.sub(r"\W+", "_", name).strip("_").lower() or "rows",
        columns=columns,
        records=records,
    )


def pipeline_text(sample: Sample, file: str) -> str:
    """Return the text of a pipeline file for a sample; ``file`` is its name."""
    window, period, lag = next(
        (size, period, lag) for least, size, period, lag in _WINDOWS if sample.span_s >= least
    )
    source = sample.name if not sample.name[0].isdigit() else f"rows_{sample.name}"
    transform = f"{source}_per_{period}"
    key, value = sample.key, sample.value
    keys = [quoted(key.name)] if key else []
    items = ["window_start() AS window_start", "window_end() AS window_end", *keys]
    items.append("count(*) AS number")
    if value is not None:
        word = re.sub(r"\W+", "_", value.name)
        items.append(f"avg({quoted(value.name)}) AS average_{word}")
    ddl = ddl_of(sample.columns)
    lines = [
        f"# Rows of {sample.file.name}: how many there are in each {period}.",
        "#",
        f"#     tidegate check {file}        find mistakes, without Spark",
        f"#     tidegate run {file} --once   process what is there, then stop",
        f"#     tidegate run {file}          wait for more",
        "",
        "[pipeline]",
        f'name = "{source}"',
        "# Progress and open windows are kept here, so that a restart goes on exactly.",
        'checkpoint = "checkpoint"',
        "# The minimum time between two micro-batches.",
        'trigger = "1s"',
        "",
        f"[sources.{source}]",
        f'format = "{sample.format}"',
        "# A folder or a pattern: files that come later are read too.",
        f"path = {json.dumps(sample.path)}",
        f"# The columns, as found in the first {MOST_RECORDS:,} records; correct what is wrong.",
        "# Spark finds them in the files." if ddl is None else f"schema = {json.dumps(ddl)}",
        *(["options.header = true"] if sample.format == "csv" else []),
        "# Files in one micro-batch at most; without it, the first one reads all there are.",
        "# max_files_per_trigger = 100",
        "",
        f"[transforms.{transform}]",
        "# Other windows: hoppingwindow, sessionwindow, slidingwindow, statewindow, countwindow.",
        'sql = """',
        "SELECT " + ",\n       ".join(items),
        f"FROM {source}",
        f"GROUP BY {', '.join([f'tumblingwindow{window}', *keys])}",
        '"""',
        *_time_lines(sample, lag),
        "# Rows that come too late and rows that fail are kept, with the reason.",
        'side_output.late.sink = "unused"',
        'side_output.error.sink = "unused"',
        "",
        "[sinks.results]",
        f'from = "{transform}"',
        'format = "json"',
        'path = "out/results"',
        "",
        "[sinks.unused]",
        'format = "json"',
        'path = "out/unused"',
    ]
    return "\n".join(lines) + "\n"


def _time_lines(sample: Sample, lag: str) -> list[str]:
    time = sample.time
    if time is None:
        return [
            "# No column holds the time of a row, so windows are by the time of processing. If one",
            '# does, name it instead: event_time_field = "..".',
            'time = "processing"',
        ]
    unit = sample.unit_of(time)
    return [
        "# When a row happened.",
        f"event_time_field = {json.dumps(time.name)}",
        *([f'event_time_unit = "{unit}"'] if unit else []),
        "# How far rows may be out of order: a window closes once a row this much later than its",
        "# end has come.",
        f'watermark_lag = "{lag}"',
        "# How much longer a window stays open for late rows.",
        '# allowed_lateness = "1m"',
    ]
