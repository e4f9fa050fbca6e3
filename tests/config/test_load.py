from pathlib import Path

import pytest

from tidegate.config import load_config, parse_config
from tidegate.errors import ConfigError
from tidegate.plan.side_output import Route
from tidegate.plan.statement import Column

FILE = Path("/pipelines/pipeline.toml")
RIGHT = '''\
[pipeline]
checkpoint = "checkpoint"
trigger = "1s"
spark.master = "local[2]"
spark.sql.shuffle.partitions = 4

[sources.flights]
format = "csv"
path = "flights/*.csv"
schema = "scheduled TIMESTAMP, origin STRING"
options.header = true
max_files_per_trigger = 1

[tables.airlines]
format = "csv"
path = "s3a://bucket/airlines.csv"

[transforms.delays]
sql = """
SELECT origin, count(*) AS n
FROM flights GROUP BY tumblingwindow('hh', 1), origin
"""
event_time_field = "scheduled"
watermark_lag = "1h"
side_output.late.sink = "late_rows"

[sinks.out]
from = "delays"
format = "parquet"
path = "out"

[sinks.late_rows]
format = "json"
path = "/tmp/late"
'''


def refusal(text, old="", new=""):
    assert old in text
    with pytest.raises(ConfigError) as caught:
        parse_config(text.replace(old, new), FILE)
    return str(caught.value)


def test_a_right_file_is_read_whole():
    config = parse_config(RIGHT, FILE)
    assert config.name == "pipeline"
    assert config.trigger == "1s"
    assert config.spark_options == {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "4"}
    assert config.sources["flights"].relation.columns == (
        Column(name="scheduled", type="TIMESTAMP"),
        Column(name="origin", type="STRING"),
    )
    assert config.sources["flights"].options == {"header": "true"}
    assert config.sources["flights"].max_files_per_trigger == 1
    assert not config.sources["airlines"].streaming
    assert config.transforms["delays"].settings.watermark_lag_us == 3_600_000_000
    assert config.transforms["delays"].side_output.sink_of("late") == "late_rows"
    assert config.transforms["delays"].side_output.sink_of("error") == "metrics_only"
    assert config.transforms["delays"].side_output.sinks == ("late_rows",)


def test_the_limits_of_side_output_are_read():
    more = 'side_output.error = { sink = "late_rows", include_original = false, timeout = "5s" }'
    config = parse_config(RIGHT.replace("\n[sinks.out]", f"{more}\n\n[sinks.out]"), FILE)
    side_output = config.transforms["delays"].side_output
    assert side_output.route("error") == Route(
        kind="error", sink="late_rows", include_original=False, timeout_us=5_000_000
    )
    assert side_output.route("evicted") == Route(kind="evicted", by_default=True)


def test_paths_are_relative_to_the_folder_of_the_file():
    config = parse_config(RIGHT, FILE)
    assert config.checkpoint == "/pipelines/checkpoint"
    assert config.sources["flights"].path == "/pipelines/flights/*.csv"
    assert config.sources["airlines"].path == "s3a://bucket/airlines.csv"
    assert config.sinks["late_rows"].path == "/tmp/late"


def test_the_sinks_of_a_transform_are_found_in_the_order_of_the_file():
    more = '[sinks.again]\nfrom = "delays"\nformat = "console"\n'
    config = parse_config(f"{RIGHT}\n{more}", FILE)
    assert [sink.name for sink in config.sinks_of("delays")] == ["out", "again"]
    assert config.sinks_of("others") == ()


def test_the_place_of_a_statement_in_the_file_is_known():
    transform = parse_config(RIGHT, FILE).transforms["delays"]
    assert transform.origin == "pipeline.toml, transforms.delays.sql"
    assert transform.sql_offset == RIGHT.index("SELECT")


def test_a_wrong_key_names_the_file_the_line_and_the_nearest_right_key():
    assert refusal(RIGHT, 'watermark_lag = "1h"', 'watermark_lagg = "1h"') == (
        "pipeline.toml, line 24: transforms.delays: there is no key watermark_lagg\n\n"
        '  24 | watermark_lagg = "1h"\n'
        "     | ^^^^^^^^^^^^^^\n\n"
        "Did you mean watermark_lag?"
    )


def test_all_problems_are_reported_in_the_order_of_their_lines():
    text = RIGHT.replace('trigger = "1s"', "trigger = 1").replace('"1h"', '"1 hour"')
    message = refusal(text)
    assert message.index(
        "line 3: pipeline: trigger = 1: a duration is text with a unit"
    ) < message.index('line 24: transforms.delays: watermark_lag = "1 hour"')


def test_a_misspelled_key_is_not_also_reported_as_missing():
    message = refusal(RIGHT, "checkpoint =", "checkpont =")
    assert "there is no key checkpont" in message
    assert "missing" not in message


@pytest.mark.parametrize(
    ("old", "new", "what", "mend"),
    [
        (
            'checkpoint = "checkpoint"\n',
            "",
            "line 1: pipeline: checkpoint is missing",
            "the folder",
        ),
        ("TIMESTAMP", "TIMESTAMPP", "line 10: sources.flights: schema", "did you mean TIMESTAMP?"),
        ('"delays"', '"delay"', 'line 28: sinks.out: from = "delay"', "Did you mean delays?"),
        ('= "late_rows"', '= "late_row"', "line 25: transforms.delays", "Did you mean late_rows?"),
        ("[sources.flights]", "[source.flights]", "there is no key source", "mean sources?"),
        ('"parquet"', '"parqet"', 'line 29: sinks.out: format = "parqet"', "Did you mean parquet?"),
        ('"csv"', '"cvs"', 'line 8: sources.flights: format = "cvs"', "Did you mean csv?"),
        ('path = "out"\n', "", "line 27: sinks.out: path is missing, and format parquet", "URL"),
        ('from = "delays"\n', "", "line 18: transforms.delays: no sink takes its results", "Add"),
        ("tables.airlines", "tables.flights", "flights is a source and a table", "another name"),
        (
            "max_files_per_trigger = 1",
            "max_files_per_trigger = 0",
            "line 12",
            "maximum number of files",
        ),
        ('side_output.late.sink = "late_rows"', "", "nothing goes to sink late_rows", "Add from"),
        (
            'late.sink = "late_rows"',
            'late = { sink = "late_rows", reinject_to = "flights" }',
            'reinject_to = "flights" has no effect: late rows go to late_rows',
            'Write sink = "reinject"',
        ),
        (
            'late.sink = "late_rows"',
            'error = { sink = "reinject", reinject_to = "flight" }',
            "there is no source flight",
            "Did you mean flights?",
        ),
        (
            'late.sink = "late_rows"',
            'error = { sink = "reinject", reinject_to = "flights" }',
            "its path is a pattern, not a folder",
            "Read one folder",
        ),
        ("[sinks.late_rows]", "[sinks.reinject]", "cannot be the name of a sink", "another name"),
        ("side_output.late", "side_output.evictd", "there is no key evictd", "mean evicted?"),
        (
            'late.sink = "late_rows"',
            'late = { sink = "late_rows", rate_limit = 0 }',
            "line 25: transforms.delays.side_output.late: rate_limit = 0",
            "maximum number of records a second",
        ),
        (
            'late.sink = "late_rows"',
            'late = { sink = "late_rows", timeout = "0s" }',
            'line 25: transforms.delays.side_output.late: timeout = "0s"',
            "how long a write may take",
        ),
        (
            "[sinks.late_rows]",
            '[sinks.late_rows]\nfrom = "delays"',
            "takes results and side output",
            "make a sink for each",
        ),
        ('event_time_field = "scheduled"', 'sql_file = "a.sql"', "both given", "or the file"),
    ],
)
def test_the_error_of_a_wrong_file_says_where_what_and_how_to_fix_it(old, new, what, mend):
    message = refusal(RIGHT, old, new)
    assert message.startswith("pipeline.toml, line ")
    assert what in message
    assert mend in message


def test_a_sink_of_results_takes_no_side_output():
    message = refusal(RIGHT, 'sink = "late_rows"', 'sink = "out"')
    assert "sink out takes results and side output" in message


def test_invalid_toml_is_reported_with_line_and_column():
    message = refusal(RIGHT, 'trigger = "1s"', "trigger = 1s")
    assert message.startswith("pipeline.toml, line 3, column 12: the file is not valid TOML: ")
    assert "\n  3 | trigger = 1s\n    |            ^\n" in message


def test_a_file_that_ends_too_early_is_reported():
    assert "the file is not valid TOML" in refusal('[pipeline]\nname = """abc')


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.toml: there is no such file"):
        load_config(tmp_path / "no.toml")


def test_an_unreadable_file_is_reported_with_the_reason(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


def test_a_statement_can_be_in_a_file_of_its_own(tmp_path):
    sql = RIGHT[RIGHT.index("sql = ") : RIGHT.index("event_time_field")].rstrip()
    file = tmp_path / "pipeline.toml"
    file.write_text(RIGHT.replace(sql, 'sql_file = "delays.sql"'))
    with pytest.raises(
        ConfigError, match=r"line 19: transforms\.delays: sql_file = \"delays\.sql\""
    ):
        load_config(file)
    (tmp_path / "delays.sql").write_text("SELECT 1")
    transform = load_config(file).transforms["delays"]
    assert transform.sql == "SELECT 1"
    assert transform.origin == "delays.sql"
    assert transform.sql_offset is None


UNION = """\
[sources.more]
format = "json"
path = "more"
schema = "origin STRING, scheduled TIMESTAMP"

[transforms.delays]
sources = ["flights", "more"]
"""


def test_several_sources_are_read_as_one_stream():
    config = parse_config(RIGHT.replace("[transforms.delays]\n", UNION), FILE)
    assert config.transforms["delays"].sources == ("flights", "more")


@pytest.mark.parametrize(
    ("sources", "what", "mend"),
    [
        ('["flights", "mor"]', 'sources names "mor": there is no source mor', "Did you mean more?"),
        ('["flights", "airlines"]', "there is no source airlines", "sources"),
        ('["flights"]', "sources must name two sources or more, each once", "name it in FROM"),
        ('["more", "more"]', "sources must name two sources or more, each once", "name it in FROM"),
    ],
)
def test_sources_that_cannot_be_read_as_one_stream_are_told(sources, what, mend):
    text = RIGHT.replace("[transforms.delays]\n", UNION).replace('["flights", "more"]', sources)
    message = refusal(text)
    assert what in message
    assert mend in message
