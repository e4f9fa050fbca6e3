"""Packages of formats: which ones a pipeline needs, and what is said of one that cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT
from tidegate import ConfigError, local_session
from tidegate.config import parse_config
from tidegate.connectors.needed import needed_packages, package_of, with_driver
from tidegate.spark.jars import _check_version, _failure
from tidegate.spark.packages import PACKAGES, settings_of

PIPELINE = """\
[pipeline]
checkpoint = "{checkpoint}"

[sources.clicks]
format = "{source}"
path = "in"
schema = "ts TIMESTAMP, user STRING"

[transforms.counts]
sql = "SELECT count(*) AS n FROM clicks GROUP BY tumblingwindow('ss', 10)"

[sinks.out]
from = "counts"
format = "{sink}"
path = "out"
"""


def parsed(source="json", sink="parquet", checkpoint="checkpoint"):
    text = PIPELINE.format(source=source, sink=sink, checkpoint=checkpoint)
    return parse_config(text, Path("pipeline.toml"))


def refusal(**formats):
    with pytest.raises(ConfigError) as refused:
        parsed(**formats)
    return str(refused.value)


def test_a_pipeline_needs_the_packages_of_its_formats_and_of_its_paths():
    assert needed_packages(parsed()) == ()
    assert needed_packages(parsed(source="avro", sink="delta")) == ("avro", "delta")
    assert needed_packages(parsed(checkpoint="s3a://bucket/ckpt")) == ("s3a",)


def test_the_package_of_jdbc_is_the_driver_of_its_url():
    assert package_of("jdbc", {"URL": "jdbc:postgresql://db/x"}) == "postgresql"
    assert package_of("jdbc", {}) == ""


def test_the_driver_is_named_unless_the_user_does():
    url = {"url": "jdbc:postgresql://db/x"}
    assert with_driver("jdbc", url) == {**url, "driver": "org.postgresql.Driver"}
    assert with_driver("jdbc", {**url, "Driver": "my.Driver"}) == {**url, "Driver": "my.Driver"}
    assert with_driver("json", url) == url


def test_settings_of_packages_join_lists_and_yield_to_the_user():
    extension = PACKAGES["delta"].settings["spark.sql.extensions"]
    catalog = "spark.sql.catalog.spark_catalog"
    alone = settings_of([PACKAGES["delta"]], {})
    assert alone == PACKAGES["delta"].settings
    given = {"spark.sql.extensions": "my.Extension", catalog: "my.Catalog"}
    both = settings_of([PACKAGES["delta"], PACKAGES["delta"]], given)
    assert both["spark.sql.extensions"] == f"my.Extension,{extension}"
    assert both[catalog] == "my.Catalog"


def test_artifacts_that_cannot_be_fetched_are_named_with_all_the_jars_to_get_by_hand():
    said = (
        "[unresolved dependency: io.delta#delta-storage;4.3.0: not found, "
        "download failed: org.slf4j#slf4j-api;2.0.13!slf4j-api.jar]"
    )
    told = str(_failure(PACKAGES["delta"].artifacts, said))
    assert told.startswith(
        "io.delta:delta-storage:4.3.0 and org.slf4j:slf4j-api:2.0.13 cannot be fetched"
    )
    assert all(artifact in told for artifact in PACKAGES["delta"].artifacts)
    assert "spark.jars.repositories" in told
    assert "spark.jars = " in told


def test_a_package_for_another_spark_is_refused_with_both_versions():
    _check_version(PACKAGES["delta"], "4.2.1")
    _check_version(PACKAGES["postgresql"], "4.3.0")
    with pytest.raises(ConfigError, match=r"io\.delta.*does not run on Spark 4\.3\.0"):
        _check_version(PACKAGES["delta"], "4.3.0")


def test_formats_that_need_no_package_are_refused_before_spark_starts():
    with pytest.raises(ConfigError, match="Did you mean delta"):
        local_session(formats=["delte"])
    with pytest.raises(ConfigError, match="it must be a list"):
        local_session(formats="delta")


def test_any_other_format_is_a_sink_and_iceberg_is_refused_by_name():
    assert parsed(sink="xyz").sinks["out"].format == "xyz"
    assert "Did you mean delta?" in refusal(sink="dleta")
    assert "no release of Iceberg runs on Spark 4.2" in refusal(sink="iceberg")
    assert "no release of Iceberg runs on Spark 4.2" in refusal(source="iceberg")
    assert "Spark only reads it" in refusal(sink="rate")


def test_the_tests_of_real_systems_use_the_versions_of_the_table():
    pom = (ROOT / "tests" / "systems" / "pom.xml").read_text(encoding="utf-8")
    for package in PACKAGES.values():
        _, artifact, version = package.name.split(":")
        there = f"<artifactId>{artifact}</artifactId>\n          <version>{version}</version>"
        assert there in pom, package.name
