"""Packages that Tidegate fetches itself when it starts Spark."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import tidegate
from tidegate.spark.jars import check_package

home, folder = sys.argv[1:3]
options = {
    "spark.driver.extraJavaOptions": f"-Duser.home={home} -XX:TieredStopAtLevel=1",
    "spark.jars.ivy": f"{home}/ivy",
}
options |= dict(each.split("=", 1) for each in sys.argv[3:])
try:
    spark = tidegate.local_session(1, options, formats=["delta", "postgresql"])
except tidegate.TidegateError as error:
    print(json.dumps({"error": str(error)}))
    sys.exit()
frame = spark.range(3)
frame.write.format("delta").save(folder)
try:
    check_package(spark, "kafka", "sources.clicks")
    lacks = None
except tidegate.ConfigError as error:
    lacks = str(error)
print(json.dumps({"rows": spark.read.format("delta").load(folder).count(), "lacks": lacks}))
"""


@pytest.fixture
def start(tmp_path):
    def run(*options: str) -> dict[str, object]:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(tmp_path / "table"), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_packages_are_fetched_past_a_maven_repository_that_lacks_their_jars(tmp_path, start):
    """Maven leaves such a repository behind, and Spark's own resolution ends at it."""
    for group, artifact, version in (
        ("org/postgresql", "postgresql", "42.7.8"),
        ("io/delta", "delta-storage", "4.3.0"),
    ):
        folder = tmp_path / ".m2" / "repository" / group / artifact / version
        folder.mkdir(parents=True)
        (folder / f"{artifact}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>{group.replace('/', '.')}"
            f"</groupId><artifactId>{artifact}</artifactId><version>{version}</version></project>"
        )
    answer = start()
    assert answer["rows"] == 3
    assert answer["lacks"].startswith(
        "sources.clicks: kafka needs org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0, which this "
        "Spark session does not have\n\n"
        'Start it with tidegate.local_session(formats=["kafka"])'
    )


def test_a_package_that_cannot_be_fetched_is_named(start):
    answer = start("spark.jars.packages=org.postgresql:postgresql:0.0.1")
    what, _, mend = answer["error"].partition("\n\n")
    assert what == (
        "org.postgresql:postgresql:0.0.1 cannot be fetched: no repository that Spark asks has it, "
        "or none can be reached"
    )
    assert 'get the jars by hand and name them, separated by commas: spark.jars = ".."' in mend
