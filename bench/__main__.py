"""``python -m bench [NAME ..] [--rows N] [--rounds N]``: run benchmarks and print results."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from bench import (
    day,
    dedup,
    floor,
    guards,
    merge_pause,
    open_groups,
    open_sessions,
    record_lateness,
    sessions,
    shards,
    side_by_side,
    sliding,
    state,
    state_partitions,
    throughput,
    timeline,
)
from bench.flink import compare
from bench.flink.questions import QUESTIONS
from bench.report import Figure, Report, format_figure, format_table, format_targets
from bench.rounds import Harness, progress

BENCHES: dict[str, Callable[[Harness], Report]] = {
    "tumbling_10s": throughput.tumbling_10s,
    "tumbling_1s": throughput.tumbling_1s,
    "hopping": throughput.hopping,
    "floor": floor.floor,
    "state": state.state,
    "state_partitions": state_partitions.state_partitions,
    "sliding": sliding.sliding,
    "session_dense": sessions.session_dense,
    "session_sparse": sessions.session_sparse,
    "open_sessions": open_sessions.open_sessions,
    "merge_pause": merge_pause.merge_pause,
    "guards": guards.guards,
    "shards": shards.shards,
    "dedup": dedup.dedup,
    "record_lateness": record_lateness.record_lateness,
    "timeline": timeline.timeline,
    "flink": compare.flink,
    "open_groups": open_groups.open_groups,
    "day": day.day,
    "side_by_side": side_by_side.side_by_side,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all; return 1 if one failed or results differ."""
    options = _parse(arguments)
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    harness = Harness(
        rounds=options.rounds,
        warm_ups=options.warm_ups,
        rows=options.rows,
        scratch=scratch,
        only=options.only,
    )
    figures: list[Figure] = []
    sound = True
    print(_surroundings(), flush=True)
    try:
        for name in options.names or BENCHES:
            report = _run(name, harness)
            if report is None:
                sound = False
                continue
            for table in report.tables:
                print("\n" + format_table(table), flush=True)
            figures += report.figures
            sound = sound and not report.failures
    finally:
        harness.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    targets = format_targets(figures)
    print("\n" + (targets + "\n" if targets else "") + "\n".join(map(format_figure, figures)))
    return 0 if sound else 1


def _run(name: str, harness: Harness) -> Report | None:
    """Return the report, or None if the benchmark failed, so that the others still run."""
    progress(f"{name} ..")
    try:
        return BENCHES[name](harness)
    except Exception:
        traceback.print_exc()
        print(f"\n{name}: DID NOT FINISH", flush=True)
        return None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHES)}; all when omitted"
    )
    parser.add_argument("--rounds", type=_positive, default=3, help="rounds of each (default 3)")
    parser.add_argument(
        "--warm-ups",
        type=_positive,
        default=1,
        help="rounds before them that are not measured (default 1)",
    )
    parser.add_argument(
        "--rows",
        type=_positive,
        help="rows instead of the benchmark's own number, for a quick look",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        choices=tuple(QUESTIONS),
        metavar="QUESTION",
        help=f"questions of the benchmark flink, of {', '.join(QUESTIONS)}",
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no benchmark named {unknown[0]}; there are {', '.join(BENCHES)}")
    return options


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _surroundings() -> str:
    return (
        f"pyspark {version('pyspark')}, Python {platform.python_version()}, {os.cpu_count()} cores "
        f"(local[2] used), {platform.system()} {platform.machine()}"
    )


if __name__ == "__main__":
    sys.exit(main())
