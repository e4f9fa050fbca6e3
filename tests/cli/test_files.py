import os

import pytest

from tidegate.cli.flights import copy_example
from tidegate.cli.formats import format_of
from tidegate.config import load_config


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.csv", "csv"),
        ("a.csv.gz", "csv"),
        ("a.JSONL", "json"),
        ("a.parquet", "parquet"),
        ("a.dat", None),
    ],
)
def test_the_name_of_a_file_says_its_format(name, found):
    assert format_of(name) == found


def test_a_folder_has_the_format_of_its_first_file(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-0.orc").touch()
    assert format_of(str(tmp_path)) == "orc"


def test_the_demo_copies_the_flights_so_that_spark_takes_them_in_order(tmp_path):
    copy = copy_example(tmp_path)
    by_name = sorted(os.listdir(copy / "departures"))
    by_time = sorted(by_name, key=lambda name: (copy / "departures" / name).stat().st_mtime)
    assert by_name == by_time
    assert len(by_name) == 32
    assert load_config(copy / "pipeline.toml").sources["departures"].path == str(
        copy / "departures"
    )
