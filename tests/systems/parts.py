"""The Java parts of the systems: class paths that Maven resolves from ``pom.xml``, once.

They are kept in a cache folder of this user. The repository there is our own: Maven leaves a
repository incomplete (it has the descriptions of artifacts whose files it did not need), and
``spark.jars.packages`` would fail on such a one in the user's home.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

import pyspark

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate" / "systems"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
SECONDS = 900

_VERSION = re.compile(r"-\d[^/]*\.jar$")


def class_path(profile: str) -> list[str]:
    """Return the jars of a profile of ``pom.xml``; Maven fetches them when they are not there."""
    digest = sha256(POM.read_bytes()).hexdigest()[:12]
    kept = CACHE / f"{profile}-{digest}.txt"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        jars = kept.read_text().split(os.pathsep) if kept.exists() else []
        if not jars or not all(Path(jar).exists() for jar in jars):
            _resolve(profile, kept)
    return kept.read_text().split(os.pathsep)


def connector_jars() -> list[str]:
    """Return the jars that Spark needs for connectors, without those that it has."""
    own = {_artifact(jar) for jar in Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar")}
    return [jar for jar in class_path("connectors") if _artifact(Path(jar)) not in own]


def _resolve(profile: str, kept: Path) -> None:
    assert shutil.which("mvn"), "these tests need Maven (Debian and Ubuntu: apt install maven)"
    fresh = kept.with_suffix(".fresh")
    subprocess.run(
        [
            *("mvn", "-B", "-q", "-f", str(POM), "-P", profile),
            f"-Dmaven.repo.local={CACHE / 'repository'}",
            f"{PLUGIN}:build-classpath",
            *("-DincludeScope=runtime", f"-Dmdep.outputFile={fresh}"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    fresh.rename(kept)


def _artifact(jar: Path) -> str:
    return _VERSION.sub("", jar.name)
