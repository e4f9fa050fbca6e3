"""CSV and JSON on Spark: values go by name, and a record that cannot be read whole is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.connectors.sources import read_stream, read_table, reporting_headers
from tidegate.errors import ConfigError
from tidegate.plan.columns import MALFORMED
from tidegate.plan.pipeline import SourceConfig
from tidegate.plan.settings import ErrorPolicy
from tidegate.plan.statement import Relation

SCHEMA = "ts TIMESTAMP, n INT, s STRING"
HEADER = {"header": "true"}
SIDE = ErrorPolicy.SIDE_OUTPUT
A_ROW = "2026-01-01T10:00:00Z,1,a\n"


def source(path: Path, *, file_format: str = "csv", **more) -> SourceConfig:
    relation = Relation(name="r", columns=None, streaming=more.pop("streaming", False))
    return SourceConfig(
        name="r",
        format=file_format,
        relation=relation,
        path=str(path),
        schema=more.pop("schema", SCHEMA),
        **more,
    )


@pytest.fixture
def write(tmp_path):
    def put(text: str | bytes, name: str = "a.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return put


def values(frame, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.select(*(names or ("n", "s"))).collect()]


def refusal(read) -> str:
    with pytest.raises(ConfigError) as refused:
        read()
    return str(refused.value)


def test_values_go_by_the_names_of_the_header(spark, write):
    file = write("s,more,N,ts\na,x,1,2026-01-01T10:00:00Z\nb,y,2,2026-01-01T10:00:01Z\n")
    frame = read_table(spark, source(file, options=HEADER))
    assert frame.columns == ["ts", "n", "s"]
    assert values(frame) == [(1, "a"), (2, "b")]


def test_a_first_line_that_is_a_row_or_a_header_where_the_other_is_said_is_refused(spark, write):
    rows = source(write(A_ROW), options=HEADER)
    assert refusal(lambda: read_table(spark, rows)) == (
        "tables.r: the first line is not a header: 2026-01-01T10:00:00Z, 1 and a; the columns are "
        'ts, n and s\n\nIf it is a row, add options.header = "false"; otherwise correct the schema.'
    )
    assert values(read_table(spark, source(write(A_ROW)))) == [(1, "a")]
    named = source(write("ts,n,s\n" + A_ROW), option_form="--option {name}={value}")
    assert refusal(lambda: read_table(spark, named)) == (
        "tables.r: the first line is a header: ts, n and s\n\nAdd --option header=true."
    )


def test_a_header_without_a_column_of_the_schema_is_refused(spark, write):
    file = source(write("ts,m,s\n"), options=HEADER)
    assert "the header names no n, only ts, m and s" in refusal(lambda: read_table(spark, file))
    by_position = source(file.path, options={**HEADER, "enforceSchema": "true"})
    assert values(read_table(spark, by_position)) == []
    twice = source(write("ts,n,s,n\n"), options=HEADER)
    assert "the header names n twice" in refusal(lambda: read_table(spark, twice))


def test_a_later_file_with_another_header_stops_with_its_name(spark, write, tmp_path):
    write("ts,n,s\n" + A_ROW, "a.csv")
    other = write("n,ts,s\n1,2026-01-01T10:00:00Z,a\n", "b.csv")
    frame = read_table(spark, source(tmp_path, options=HEADER))

    def read():
        with reporting_headers():
            frame.collect()

    message = refusal(read)
    assert message.startswith(f"file://{other}: the header is n, ts, s, but that of the first file")


CSV = "ts,n,s\n2026-01-01T10:00:00Z,x,a\n2026-01-01T10:00:01Z,99999999999,b\n" + (
    "2026-01-01T10:00:02Z,3,c\n2026-01-01T10:00:03Z,4\n2026-01-01T10:00:04Z,5,d,e\nnever,6,f\n"
)
CSV_ERRORS = [
    "2026-01-01T10:00:00Z,x,a",
    "2026-01-01T10:00:01Z,99999999999,b",
    None,
    "2026-01-01T10:00:03Z,4",
    "2026-01-01T10:00:04Z,5,d,e",
    "never,6,f",
]


def test_records_of_csv_that_cannot_be_read_whole_are_told_whatever_columns_are_used(spark, write):
    file = source(write(CSV), options=HEADER)
    frame = read_table(spark, file, SIDE)
    for used in ([], ["s"], ["ts", "n"]):
        assert [row[0] for row in values(frame, MALFORMED, *used)] == CSV_ERRORS
    plain = read_table(spark, file, ErrorPolicy.NULL)
    assert plain.columns == ["ts", "n", "s"]
    assert [row[0] for row in values(plain, "n")] == [None, None, 3, 4, 5, 6]
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        read_table(spark, file, ErrorPolicy.FAIL).collect()


def test_marks_quotes_and_compression_are_read_right(spark, write):
    assert values(read_table(spark, source(write(b"\xef\xbb\xbf" + CSV.encode()), options=HEADER)))
    packed = source(write(gzip.compress(CSV.encode()), "a.csv.gz"), options=HEADER)
    assert [row[0] for row in values(read_table(spark, packed, SIDE), MALFORMED)] == CSV_ERRORS
    quoted = 'ts,n,s\n2026-01-01T10:00:00Z,1,"a ""b"", c"\n2026-01-01T10:00:00Z,2,5" disk\n'
    frame = read_table(spark, source(write(quoted), options=HEADER), SIDE)
    assert values(frame, "s", MALFORMED) == [('a "b", c', None), ('5" disk', None)]


def test_line_breaks_in_quotes_and_other_encodings_are_refused_with_the_option(spark, write):
    broken = source(write('ts,n,s\n2026-01-01T10:00:00Z,1,"a\nb"\n'), options=HEADER)
    assert refusal(lambda: read_table(spark, broken)) == (
        f"{broken.path}, line 2: a quoted value continues in the next line\n\nAdd "
        'options.multiLine = "true", or set another quote character if this one is ordinary text.'
    )
    whole = source(Path(str(broken.path)), options={**HEADER, "multiline": "true"})
    assert values(read_table(spark, whole)) == [(1, "a\nb")]
    accent = "ts,n,s\n2026-01-01T10:00:00Z,1,é\n"
    latin = source(write(accent.encode("latin-1")), options=HEADER)
    message = refusal(lambda: read_table(spark, latin))
    assert message.startswith(f"{latin.path}, line 2: byte 0xe9 is not UTF-8\n\n")
    named = source(Path(str(latin.path)), options={**HEADER, "encoding": "ISO-8859-1"})
    assert values(read_table(spark, named)) == [(1, "é")]
    wide = source(write(accent.encode("utf-16")), options={**HEADER, "encoding": "UTF-16"})
    assert "is in UTF-16, by its first bytes" in refusal(lambda: read_table(spark, wide))
    right = source(Path(str(wide.path)), options={**wide.options, "multiLine": "true"})
    assert values(read_table(spark, right)) == [(1, "é")]


def test_records_of_json_that_cannot_be_read_whole_are_told(spark, write):
    lines = (
        '{"ts":"2026-01-01T10:00:00Z","n":"x","s":"a"}',
        '{"n":3,"s":"b","more":1}',
        "not json",
    )
    file = source(write("\n".join(lines), "a.json"), file_format="json")
    frame = read_table(spark, file, SIDE)
    assert values(frame, "n", MALFORMED) == [(None, lines[0]), (3, None), (None, lines[2])]
    found = read_table(spark, source(Path(str(file.path)), file_format="json", schema=None), SIDE)
    assert found.columns == ["more", "n", "s", "ts", MALFORMED]
    assert [row[0] for row in values(found, MALFORMED)] == [None, None, lines[2]]


def test_a_document_of_json_over_several_lines_is_refused_with_the_option(spark, write):
    file = source(write('[{"n": 1},\n {"n": 2}]', "a.json"), file_format="json")
    assert "is one JSON document of several lines" in refusal(lambda: read_table(spark, file))
    whole = source(Path(str(file.path)), file_format="json", options={"multiLine": "true"})
    assert values(read_table(spark, whole), "n") == [(1,), (2,)]
    nothing = source(write("hello\n", "b.json"), file_format="json", schema=None)
    assert "no record of it can be read as json" in refusal(lambda: read_table(spark, nothing))


def test_a_folder_that_has_wildcards_in_its_name_is_read_literally(spark, tmp_path):
    folder = tmp_path / "in [1] {a,b} c=d"
    folder.mkdir()
    (folder / "a.csv").write_text("ts,n,s\n" + A_ROW)
    assert values(read_table(spark, source(folder, options=HEADER))) == [(1, "a")]
    stream = read_stream(spark, source(folder, options=HEADER, streaming=True), SIDE)
    assert stream.columns == ["ts", "n", "s", MALFORMED]
    query = (
        stream.writeStream.format("memory")
        .queryName("literal")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values(spark.table("literal")) == [(1, "a")]


def test_a_stream_may_start_before_its_first_file(spark, tmp_path):
    given = {"options": HEADER, "streaming": True}
    for path in (tmp_path, tmp_path / "*.csv"):
        stream = read_stream(spark, source(path, **given), SIDE)
        assert stream.columns == ["ts", "n", "s", MALFORMED]


def test_timestamps_in_nanoseconds_are_refused_with_the_ways_to_read_them(spark, tmp_path):
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("ns"))}), tmp_path / "a.parquet")
    file = source(tmp_path / "a.parquet", file_format="parquet", schema=None)
    assert "spark.sql.legacy.parquet.nanosAsLong = true" in refusal(lambda: read_table(spark, file))
