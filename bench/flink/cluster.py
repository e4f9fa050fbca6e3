"""Flink in a process of its own, which runs SQL scripts one after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from bench.workload import CACHE
from tidegate.spark.java import ensure_java

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
JARS = CACHE / "flink"
FETCH = "make flink-jars"

HEAP = "4g"
# What Flink's own scripts open for Java 17.
OPENED = ("java.lang", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util")


class Unavailable(Exception):
    """Flink cannot run here; the message says what is missing and how to get it."""


class Cluster:
    """A Flink cluster with two slots.

    Raises:
        Unavailable: jars or the compiler of Java are missing.
    """

    def __init__(self, scratch: Path) -> None:
        classpath = _compile(scratch / "flink-classes")
        temporary = scratch / "flink-tmp"
        temporary.mkdir()
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        self._log = (scratch / "flink.log").open("w+")
        self._process = subprocess.Popen(
            [
                _java("java"),
                f"-Xms{HEAP}",
                f"-Xmx{HEAP}",
                f"-Djava.io.tmpdir={temporary}",
                *opened,
                "-cp",
                classpath,
                "SqlRunner",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=scratch,
        )
        self._scratch = scratch
        self._expect("ready")

    @property
    def pid(self) -> int:
        """The process that runs everything."""
        return self._process.pid

    def run(self, script: str) -> float:
        """Run a script to the end of its INSERT; return the net seconds of the job.

        Raises:
            RuntimeError: Flink refuses the script, or the job fails.
        """
        file = self._scratch / "script.sql"
        file.write_text(script)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{file}\n")
        self._process.stdin.flush()
        return int(self._expect("ok")) / 1_000

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def _expect(self, word: str) -> str:
        """Return what follows the word in the next line of the process."""
        assert self._process.stdout is not None
        # Flink prints nothing there, but a plan that a script asks for is printed.
        for line in self._process.stdout:
            first, _, rest = line.strip().partition(" ")
            if first == word:
                return rest
            if first == "error":
                raise RuntimeError(f"Flink: {rest}")
            print(line, end="")
        self._log.seek(0)
        raise RuntimeError(f"Flink has ended:\n{self._log.read()[-4_000:]}")


def missing_jars() -> list[str]:
    """Return the names of jars that have not been fetched."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    project = ElementTree.parse(POM).getroot()
    version = project.findtext("m:properties/m:flink.version", namespaces=space)
    names = [
        f"{artifact.text}-{version}.jar"
        for artifact in project.iterfind("m:dependencies/m:dependency/m:artifactId", space)
    ]
    return [name for name in names if not (JARS / name).exists()]


def _compile(classes: Path) -> str:
    """Compile the runner into a folder; return the class path."""
    missing = missing_jars()
    if missing:
        raise Unavailable(
            f"{JARS} lacks {', '.join(missing)}; {FETCH} fetches Flink's jars (200 MB), with Maven"
        )
    ensure_java()
    import pyspark

    # Flink's Parquet reader needs the classes of Hadoop, which it leaves to its surroundings.
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    logging = (Path(pyspark.__file__).parent / "jars").glob("jcl-over-slf4j-*.jar")
    jars = [f"{JARS}/*", *map(str, hadoop), *map(str, logging)]
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.flink.table.factories.Factory").write_text("FilesInOrder\n")
    sources = map(str, sorted((HERE / "java").glob("*.java")))
    command = [_java("javac"), "-nowarn", "-d", str(classes), "-cp", ":".join(jars), *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"javac: {done.stderr}")
    return ":".join([str(classes), *jars])


def _java(program: str) -> str:
    """Return the path of a program of the JDK."""
    home = os.environ.get("JAVA_HOME")
    beside = Path(home) / "bin" / program if home else None
    found = str(beside) if beside and beside.exists() else shutil.which(program)
    if found is None:
        raise Unavailable(f"there is no {program}; install a JDK (17 or later), not only a JRE")
    return found
