"""The oracle as an engine for cases: the one place where it meets the product."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.cases import COUNTERS, Case, Observed, SideRow
from tidegate.cases.model import FAR_AHEAD_US
from tidegate.errors import TidegateError

from .oracle import Oracle, Outcome
from .parse import Refused
from .relation import Field, Frame


class OracleEngine:
    """Runs a case on the oracle; the oracle has no checkpoint, so a stop changes nothing."""

    def __init__(self, case: Case) -> None:
        tables = {
            table.name: Frame(
                tuple(Field(table.name, column.name, column.type) for column in table.columns),
                tuple((row, None) for row in table.rows),
            )
            for table in case.tables
        }
        columns = [(column.name, column.type) for column in case.stream.columns]
        try:
            self._oracle = Oracle(case.query, case.stream.name, columns, case.settings, tables)
        except Refused as error:
            raise TidegateError(str(error)) from error

    def batch(self, rows: tuple[tuple[object, ...], ...], clock_us: int | None) -> Observed:
        if clock_us is None and self._oracle.is_clock:
            raise TidegateError(
                'a batch in processing time needs its clock: write "batch at 10:00:20"'
            )
        return self._observe(
            self._oracle.batch(rows, FAR_AHEAD_US if clock_us is None else clock_us)
        )

    def clock(self, clock_us: int) -> Observed:
        return self._observe(self._oracle.clock(clock_us))

    def stop(self) -> None:
        pass

    def drain(self) -> Observed:
        return self._observe(self._oracle.drain())

    def flush(self) -> Observed:
        return self._observe(self._oracle.flush())

    def counts(self) -> Mapping[str, int]:
        return {name: self._oracle.counts[name] for name in COUNTERS}

    def close(self) -> None:
        pass

    def _observe(self, outcome: Outcome) -> Observed:
        side: dict[str, tuple[SideRow, ...]] = {}
        for record in outcome.side:
            row = SideRow(
                original=record.original or {}, reason=record.reason, late_by_ms=record.late_by_ms
            )
            side[record.kind] = (*side.get(record.kind, ()), row)
        return Observed(
            columns=self._oracle.columns,
            emitted=tuple(outcome.emitted),
            side=side,
            watermark_us=outcome.watermark_us,
        )
