"""Breaks the engine on purpose, one place at a time, and tells which tests notice.

    make mutate                      every mutant of the table
    make mutate MUTANTS="lateness"   those whose name contains the text
    make mutate MUTANTS=--quick      the tests of `make test` only

The table of faults is in ``mutants.py``. Each is applied alone to a copy of the tree, where the
tests that it names run: first as `make test` runs them, then, if it survives, as
`make test-all` does. One JVM serves all of them, so a mutant costs seconds. The exit code is 1 when
a mutant survives both, or when its text is gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/tidegate"
TIMEOUT_SECONDS = 600
# By the marker expression under which a test has failed.
VERDICTS = {"not whole": "quick", "": "whole", None: "survived"}


def main(words: list[str]) -> int:
    """Run the chosen mutants and print a line for each."""
    marks = ["not whole"] if "--quick" in words else ["not whole", ""]
    words = [word for word in words if word != "--quick"]
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    gone = [mutant.name for mutant in chosen if not fits(mutant)]
    for name in gone:
        print(f"gone      {name}: its text does not stand exactly once in its file", flush=True)
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="tidegate-mutants-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        environment = {**os.environ, **jvm(), "PYTHONPATH": str(tree / "src")}
        for mutant in (mutant for mutant in chosen if mutant.name not in gone):
            started = time.monotonic()
            tried = ((mark, run(mutant, tree, environment, mark)) for mark in marks)
            mark, test = next(((mark, test) for mark, test in tried if test), (None, ""))
            verdict = VERDICTS[mark]
            verdicts[verdict] += 1
            seconds = round(time.monotonic() - started)
            print(f"{verdict:9} {mutant.name} ({seconds} s) {test}".rstrip(), flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return 1 if verdicts["survived"] or gone else 0


def fits(mutant: Mutant) -> bool:
    """Whether the text of a mutant stands exactly once in its file."""
    path = ROOT / SOURCE / mutant.file
    return path.exists() and path.read_text().count(mutant.old) == 1


def run(mutant: Mutant, tree: Path, environment: dict[str, str], mark: str) -> str:
    """Return the first test that fails on a mutant, empty when all pass."""
    path = tree / SOURCE / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", mark]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *mutant.tests],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"no end in {TIMEOUT_SECONDS} s"
    finally:
        path.write_text(text)
    if ended.returncode not in (0, 1):
        sys.exit(f"{mutant.name}: pytest could not run\n{ended.stdout}{ended.stderr}")
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert bool(failed) == bool(ended.returncode), ended.stdout
    return failed[0].split(" ", 1)[1] if failed else ""


def jvm() -> dict[str, str]:
    """Start the JVM that serves all mutants; return the environment by which pytest finds it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    from jvm import JAVA_OPTIONS, MEMORY
    from tidegate.spark.java import ensure_java
    from tidegate.spark.session import LOGGING

    ensure_java()
    log = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    conf = SparkConf().set("spark.driver.memory", MEMORY)
    conf.set("spark.driver.extraJavaOptions", f"{JAVA_OPTIONS} {log}")
    gateway = launch_gateway(conf)
    parameters = gateway.gateway_parameters
    return {
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": str(parameters.auth_token),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
