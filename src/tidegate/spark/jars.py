"""Giving Spark the jars of packages before its session starts, and saying what a session lacks.

Spark's launcher resolves ``spark.jars.packages`` before Python can talk to it, and ends with a
stack trace where that fails. So Java is started without packages; then the launcher's own code
resolves them in it, and a failure is told in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidegate.errors import ConfigError
from tidegate.names import listed
from tidegate.spark.packages import LISTS, PACKAGES, Package, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The user's own packages, which Spark resolves with all that they depend on.
SETTING = "spark.jars.packages"
_HAND = (
    "Where they cannot be fetched, get the jars by hand and name them, separated by commas: "
    'spark.jars = ".."'
)


def with_jars(settings: Mapping[str, str], formats: Iterable[str]) -> dict[str, str]:
    """Return the settings of a session that has the packages of formats; Java has been started.

    Args:
        settings: the settings so far. Packages of the user in them (``spark.jars.packages``) are
            resolved here too.
        formats: keys of ``PACKAGES``; one whose class Spark has already is left alone.

    Raises:
        ConfigError: a package cannot be fetched, or does not run on this Spark.
    """
    settings = dict(settings)
    theirs = settings.pop(SETTING, "")
    packages = [PACKAGES[name] for name in dict.fromkeys(formats)]
    if not packages and not theirs:
        return settings
    fetching = _Fetching(settings, _java())
    jars = fetching.fetch(theirs.split(","), transitive=True) if theirs else []
    fetching.put_on_class_path(jars)
    for package in packages:
        if not fetching.has(package.provides):
            _check_version(package, fetching.version)
            found = fetching.fetch(package.artifacts, transitive=False)
            fetching.put_on_class_path(found)
            jars += found
    settings = settings_of(packages, settings)
    if jars:
        given = settings.get("spark.jars", "")
        settings["spark.jars"] = ",".join([*([given] if given else []), *jars])
    return settings


def check_package(spark: SparkSession, format: str, place: str) -> None:
    """Refuse a format whose package a session lacks.

    Args:
        spark: the session.
        format: a key of ``PACKAGES``; any other name is left to Spark.
        place: what has the format, for messages, e.g. ``sources.clicks``.

    Raises:
        ConfigError: it does.
    """
    package = PACKAGES.get(format)
    if package is None:
        return
    session: Any = spark._jsparkSession
    if not _has_class(session.sharedState().jarClassLoader(), package.provides):
        raise ConfigError(
            f"{place}: {format} needs {package.name}, which this Spark session does not have\n\n"
            f'Start it with tidegate.local_session(formats=["{format}"]), or with {SETTING} = '
            f'"{package.name}". {_HAND}. The jars are {listed(package.artifacts)}.'
        )
    # A catalog of the user's may stand in for the one that a package brings.
    for name in LISTS:
        value, given = package.settings.get(name), spark.conf.get(name, "") or ""
        if value is not None and value not in given.split(","):
            raise ConfigError(
                f"{place}: {format} needs a Spark session that was started with {name} = "
                f'"{value}"; here it is "{given}"\n\n'
                f'Start it so, or with tidegate.local_session(formats=["{format}"]).'
            )


def _check_version(package: Package, version: str) -> None:
    if package.spark and not version.startswith(package.spark):
        raise ConfigError(
            f"{package.name} does not run on Spark {version}, only on {listed(package.spark)}\n\n"
            'Install such a Spark, e.g. pip install "pyspark==4.2.*".'
        )


def _java() -> Any:  # noqa: ANN401 - a JVM object
    from pyspark import SparkContext

    assert SparkContext._jvm is not None, "Java was started before"
    return SparkContext._jvm


def _has_class(loader: Any, name: str) -> bool:  # noqa: ANN401 - a JVM object
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


@dataclass(frozen=True, slots=True)
class _Fetching:
    """Resolves packages in a Java in which no Spark session has started yet."""

    settings: Mapping[str, str]
    jvm: Any

    @property
    def version(self) -> str:
        """The version of Spark."""
        return str(self.jvm.org.apache.spark.package.SPARK_VERSION())

    def has(self, name: str) -> bool:
        """Whether Spark finds a class."""
        return _has_class(self._loader, name)

    def put_on_class_path(self, jars: Iterable[str]) -> None:
        """Add jars to the class path of the driver, as Spark's launcher does."""
        for jar in jars:
            self._loader.addURL(self.jvm.java.io.File(jar).toURI().toURL())

    @property
    def _loader(self) -> Any:  # noqa: ANN401 - a JVM object
        return self.jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def fetch(self, artifacts: Sequence[str], *, transitive: bool) -> list[str]:
        """Return the paths of the jars of artifacts, fetched where this machine lacks them.

        A local Maven repository can have the description of an artifact without its jar, which
        ends a resolution. Then it is tried again without that repository.

        Raises:
            ConfigError: they cannot be had.
        """
        try:
            return self._resolve(artifacts, transitive=transitive, local=True)
        except Py4JJavaError:
            pass
        try:
            return self._resolve(artifacts, transitive=transitive, local=False)
        except Py4JJavaError as error:
            raise _failure(artifacts, str(error.java_exception.getMessage())) from None

    def _resolve(self, artifacts: Sequence[str], *, transitive: bool, local: bool) -> list[str]:
        utils = getattr(getattr(self.jvm.org.apache.spark.util, "MavenUtils$"), "MODULE$")
        said = self.jvm.java.io.PrintStream(self.jvm.java.io.ByteArrayOutputStream())
        option = self.jvm.scala.Option.apply
        remote, cache = (
            option(self.settings.get(f"spark.jars.{name}")) for name in ("repositories", "ivy")
        )
        file = self.settings.get("spark.jars.ivySettings")
        ivy = (
            utils.buildIvySettings(remote, cache, local, said)
            if file is None
            else utils.loadIvySettings(file, remote, cache, said)
        )
        excluded = [
            each for each in self.settings.get("spark.jars.excludes", "").split(",") if each
        ]
        sequence = self.jvm.PythonUtils.toSeq(excluded)
        found = utils.resolveMavenCoordinates(
            ",".join(artifacts), ivy, option(None), transitive, sequence, False, said
        )
        return [found.apply(number) for number in range(found.size())]


_UNRESOLVED = re.compile(
    r"(unresolved dependency|download failed): ([^#\s]+)#([^;]+);([^!:,\]\s]+)[^,\]]*"
)


def _failure(artifacts: Sequence[str], said: str) -> ConfigError:
    missing = {":".join(match.groups()[1:]) for match in _UNRESOLVED.finditer(said)}
    what = (
        f"{listed(sorted(missing))} cannot be fetched: no repository that Spark asks has it, or "
        "none can be reached"
        if missing
        else f"{artifacts[0]} cannot be fetched: {said.splitlines()[0] if said else 'no reason'}"
    )
    return ConfigError(
        f"{what}\n\nConnect this machine to Maven Central, or name a repository that it reaches: "
        f'spark.jars.repositories = "..". {_HAND}. The jars are {listed(artifacts)}.'
    )
