"""Bad weeks for as long as one likes: ``make torture SECONDS=3600 SEED=1``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from pathlib import Path

import tidegate as tg

from .compare import compare
from .stream import STATEMENTS


def main() -> int:
    """Run seed after seed over all kinds of windows; the first difference ends it."""
    options = argparse.ArgumentParser(prog="torture")
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=1, help="the first one")
    options.add_argument("--kind", choices=list(STATEMENTS), action="append")
    asked = options.parse_args()
    kinds = asked.kind or list(STATEMENTS)
    spark = tg.local_session(cores=2, options={"spark.sql.shuffle.partitions": "2"})
    done: Counter[str] = Counter()
    started = time.monotonic()
    for number in count(asked.seed):
        kind = kinds[number % len(kinds)]
        with tempfile.TemporaryDirectory(prefix=f"torture-{kind}-{number}-") as folder:
            # Every third week kills processes.
            told = compare(
                spark, Path(folder), kind, seed=number, legs=3, processes=number % 3 == 0
            )
        done += told
        done["weeks"] += 1
        print(f"{kind}, seed {number}: as in a calm week, after {dict(told)}", flush=True)
        if time.monotonic() - started > asked.seconds:
            break
    print(f"all the same: {dict(done)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
