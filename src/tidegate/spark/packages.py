"""What Spark lacks for a format: one literal table, with every version that Tidegate pins.

A session that Tidegate starts gets the packages of the formats that it is asked for (``jars.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The jars of a format or of a file system.

    Attributes:
        artifacts: all jars that Spark does not bring itself, ``group:artifact:version``, the main
            one first. They are fetched as listed, without what they depend on.
        provides: a class in the main jar; if Spark has it, nothing is fetched.
        settings: what Spark must be started with; several packages may add to a setting that is a
            list.
        spark: the versions of Spark that it runs on, as they begin; empty for all.
    """

    artifacts: tuple[str, ...]
    provides: str
    settings: Mapping[str, str] = field(default_factory=dict)
    spark: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The main artifact: ``group:artifact:version``."""
        return self.artifacts[0]


# Settings of Spark that are lists.
LISTS = ("spark.sql.extensions", "spark.jars")

PACKAGES: dict[str, Package] = {
    "kafka": Package(
        artifacts=(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ),
        provides="org.apache.spark.sql.kafka010.KafkaSourceProvider",
    ),
    "avro": Package(
        artifacts=("org.apache.spark:spark-avro_2.13:4.2.0",),
        provides="org.apache.spark.sql.avro.AvroFileFormat",
    ),
    "delta": Package(
        artifacts=(
            "io.delta:delta-spark_2.13:4.3.0",
            "io.delta:delta-storage:4.3.0",
            "io.delta:delta-kernel-api:4.3.0",
            "io.delta:delta-kernel-defaults:4.3.0",
            "io.delta:delta-kernel-unitycatalog:4.3.0",
            "io.unitycatalog:unitycatalog-client:0.5.0",
        ),
        provides="io.delta.sql.DeltaSparkSessionExtension",
        settings={
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        spark=("4.2",),
    ),
    "postgresql": Package(
        artifacts=("org.postgresql:postgresql:42.7.8",), provides="org.postgresql.Driver"
    ),
    "s3a": Package(
        artifacts=(
            "org.apache.hadoop:hadoop-aws:3.5.0",
            "software.amazon.awssdk:bundle:2.35.4",
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
            "org.wildfly.openssl:wildfly-openssl:2.2.5.Final",
        ),
        provides="org.apache.hadoop.fs.s3a.S3AFileSystem",
    ),
}


def settings_of(packages: Iterable[Package], given: Mapping[str, str]) -> dict[str, str]:
    """Return settings with those that packages need; what the user gave takes precedence.

    In a setting that is a list, the user's values come first.
    """
    settings = dict(given)
    for package in packages:
        for name, value in package.settings.items():
            before = settings.get(name, "")
            if name in LISTS and value not in before.split(","):
                settings[name] = f"{before},{value}" if before else value
            settings.setdefault(name, value)
    return settings
