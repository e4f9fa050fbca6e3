"""Faults that the tests must notice: the table of ``mutate.py``."""

from __future__ import annotations

from dataclasses import dataclass

CASES = "tests/test_cases.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A fault: ``old`` text of a file of ``src/tidegate``, the ``new`` text, and who should see it.

    ``tests`` are arguments of pytest.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def cases(words: str) -> tuple[str, ...]:
    """Cases on Spark whose names contain the words."""
    return (CASES, "-k", f"spark_gives and ({words})")


MUTANTS = (
    Mutant(
        name="a tumbling window closes a moment after its end",
        file="engine/windows/panes/operator.py",
        old="return first_end_us <= min(closing.bound_us,",
        new="return first_end_us < min(closing.bound_us,",
        tests=cases("tumbling"),
    ),
    Mutant(
        name="a hopping window is due before its end",
        file="engine/windows/panes/operator.py",
        old="upto_us = min(last_us, closing.bound_us)",
        new="upto_us = last_us",
        tests=cases("hopping"),
    ),
    Mutant(
        name="a session is due at exactly the gap",
        file="engine/windows/sessions/operator.py",
        old=("due_us = closing.bound_us - self.gap_us\n        due, open_"),
        new=("due_us = closing.bound_us - self.gap_us + 1\n        due, open_"),
        tests=cases("session"),
    ),
    Mutant(
        name="a session takes one row more than its quota",
        file="engine/windows/sessions/quotas.py",
        old="{rows} >= {max_rows})",
        new="{rows} > {max_rows})",
        tests=cases("quotas and session"),
    ),
    Mutant(
        name="a row that is evicted from a session goes on with it",
        file="engine/windows/sessions/quotas.py",
        old="IF({evicted}, acc.live, {live})",
        new="{live}",
        tests=cases("quotas and session"),
    ),
    Mutant(
        name="a table shows groups that a quota keeps out of a window",
        file="engine/rows/quotas.py",
        old="hidden = _hidden(evictions, self.windows.keys) if self.windows.overlap else None",
        new="hidden = None",
        tests=("tests/engine/test_duplicates_and_quotas.py",),
    ),
    Mutant(
        name="a sliding window with lookahead closes a moment early",
        file="engine/windows/sliding/operator.py",
        old="self._opens_from(closing.bound_us) - 1)",
        new="self._opens_from(closing.bound_us))",
        tests=cases("sliding"),
    ),
    Mutant(
        name="rows of state and count windows are released a moment early",
        file="engine/windows/ordered/operator.py",
        old='rows.where(f"{TIME} < {by_reference(closing.bound_us, TIME)}")',
        new='rows.where(f"{TIME} <= {by_reference(closing.bound_us, TIME)}")',
        tests=cases("exactly or state"),
    ),
    Mutant(
        name="the allowed lateness is ignored",
        file="engine/advance.py",
        old="latest(state.bound_us, watermark_us - job.plan.watermark.lateness_us)",
        new="latest(state.bound_us, watermark_us)",
        tests=cases("lateness"),
    ),
    Mutant(
        name="the lateness is a microsecond short",
        file="engine/advance.py",
        old="latest(state.bound_us, watermark_us - job.plan.watermark.lateness_us)",
        new="latest(state.bound_us, watermark_us - job.plan.watermark.lateness_us + 1)",
        tests=cases("lateness or tumbling or session"),
    ),
    Mutant(
        name="times before 1970 are truncated",
        file="engine/windows/panes/grid.py",
        old='return f"({value} - pmod({moved}, {size_us}))"',
        new='return f"({value} - ({moved}) % {size_us})"',
        tests=cases("1970"),
    ),
    Mutant(
        name="a merge of segments drops one",
        file="engine/merging.py",
        old="            io.read(crowd), self.bound_us, some",
        new="            io.read(crowd[1:]), self.bound_us, some",
        tests=("tests/laws/test_panes.py",),
    ),
    Mutant(
        name="a merge whose segments are gone counts as failed",
        file="engine/merging.py",
        old="self._has_failed = is_whole",
        new="self._has_failed = True",
        tests=("tests/engine/test_merging.py",),
    ),
    Mutant(
        name="a merge of sessions that a close has rewritten is taken over",
        file="engine/merging.py",
        old="bound_us > self.apart_us",
        new="False",
        tests=("tests/engine/test_merging.py",),
    ),
    Mutant(
        name="a merge of segments that are gone is taken over",
        file="engine/merging.py",
        old="if self._was_late or not is_whole:",
        new="if self._was_late:",
        tests=("tests/engine/test_merging.py",),
    ),
    Mutant(
        name="merged panes are in no order",
        file="engine/windows/panes/operator.py",
        old="        return (PANE,)",
        new="        return ()",
        tests=("tests/engine/test_paned.py",),
    ),
    Mutant(
        name="the watermark has no lag",
        file="state/watermark.py",
        old="return least_us - spec.lag_us",
        new="return least_us",
        tests=cases("watermark"),
    ),
    Mutant(
        name="the watermark goes back",
        file="state/watermark.py",
        old="watermark_us=_later(state.watermark_us, candidate))",
        new="watermark_us=candidate)",
        tests=("tests/laws/test_watermark.py", "tests/laws/test_sliding.py"),
    ),
    Mutant(
        name="a row at exactly the gap starts a session",
        file="engine/windows/sessions/chains.py",
        old="{FIRST} > {_BEFORE} + {gap_us}L",
        new="{FIRST} >= {_BEFORE} + {gap_us}L",
        tests=cases("session"),
    ),
    Mutant(
        name="a state window looks at emit on the row that opens it",
        file="engine/windows/ordered/state_window.py",
        old='starts, emits = f"(NOT _active AND {OPEN})", f"(_active AND {EMIT})"',
        new=('starts, emits = f"(NOT _active AND {OPEN})", f"((_active OR {OPEN}) AND {EMIT})"'),
        tests=cases("state"),
    ),
    Mutant(
        name="an unknown condition opens a state window",
        file="engine/windows/ordered/state_window.py",
        old='f"coalesce({name}, false)"',
        new='f"coalesce({name}, true)"',
        tests=cases("state"),
    ),
    Mutant(
        name="rows of a count window are numbered from zero after a restart",
        file="engine/windows/ordered/count_window.py",
        old="IF({NEW}, {REACHED_BEFORE} + _place, {CARRIED_ORDINAL})",
        new="IF({NEW}, _place, {CARRIED_ORDINAL})",
        tests=cases("count"),
    ),
    Mutant(
        name="a count window keeps a row too few",
        file="engine/windows/ordered/count_window.py",
        old="({ORDINAL} > {REACHED} - {self.count})",
        new="({ORDINAL} > {REACHED} - {self.count} + 1)",
        tests=("tests/laws/test_states_and_counts.py",),
    ),
    Mutant(
        name="results of a repeated batch are added",
        file="spark/files.py",
        old='writer.mode("overwrite").save(folder)',
        new='writer.mode("append").save(folder)',
        tests=("tests/test_files.py",),
    ),
    Mutant(
        name="cleaning up deletes segments in use",
        file="state/cleaning.py",
        old="sorted(candidates - live)",
        new="sorted(candidates)",
        tests=cases("tumbling"),
    ),
    Mutant(
        name="a sweep deletes what another writer may be writing",
        file="state/cleaning.py",
        old="if time.time() - entry.modified_s < GRACE_SECONDS:",
        new="if time.time() - entry.modified_s < 0:",
        tests=("tests/state/test_cleaning.py",),
    ),
    Mutant(
        name="a result whose expression fails is not guarded",
        file="engine/rows/finish.py",
        old="return self.guards[sql].safe if sql in self.guards else sql",
        new="return sql",
        tests=cases("side_output"),
    ),
    Mutant(
        name="LIMIT counts before HAVING",
        file="engine/rows/finish.py",
        old=(
            "        if stage.having is not None:\n"
            "            closed = closed.where(self._safe(stage.having.sql))\n"
            "        if stage.limit is not None:\n"
            "            closed = self._limited(closed, stage.limit)\n"
        ),
        new=(
            "        if stage.limit is not None:\n"
            "            closed = self._limited(closed, stage.limit)\n"
            "        if stage.having is not None:\n"
            "            closed = closed.where(self._safe(stage.having.sql))\n"
        ),
        tests=cases("aggregates or tumbling or hopping"),
    ),
    Mutant(
        name="LIMIT counts across windows",
        file="engine/rows/finish.py",
        old="Window.partitionBy(WINDOW_ID)",
        new="Window.partitionBy(functions.lit(1))",
        tests=("tests/test_cases.py", "tests/arroyo", "-k", "spark_gives or arroyo"),
    ),
    Mutant(
        name="late rows are late by a thousand times too much",
        file="engine/side_output/records.py",
        old="({judged.late_windows.last_end})) div 1000",
        new="({judged.late_windows.last_end})) div 1",
        tests=cases("late"),
    ),
    Mutant(
        name="row errors are not counted",
        file="engine/rows/ingest.py",
        old="for fate in (*UNTIMED, Fate.ROW_ERROR)",
        new="for fate in UNTIMED",
        tests=cases("side_output"),
    ),
    Mutant(
        name="a drain leaves the watermark where it was",
        file="engine/intake.py",
        old="        watermark_us = past_everything(watermark_us, seen.tables, job)",
        new="        past_everything(watermark_us, seen.tables, job)",
        tests=cases("tumbling"),
    ),
    Mutant(
        name="a sample has the first rows of all tasks",
        file="engine/samples.py",
        old="numbers().get(_SAMPLE, ())[:most]",
        new="numbers().get(_SAMPLE, ())",
        tests=("tests/engine/test_samples.py",),
    ),
    Mutant(
        name="every step keeps a sample",
        file="engine/samples.py",
        old="            return 0\n",
        new="            pass\n",
        tests=("tests/engine/test_samples.py",),
    ),
    Mutant(
        name="the clock goes back",
        file="engine/clock.py",
        old="clock = Clock(us=before.us + passed_us // 2, machine_us",
        new="clock = Clock(us=machine_us, machine_us",
        tests=("tests/engine/test_clock.py", "tests/test_cases.py", "-k", "clock"),
    ),
    Mutant(
        name="a row late for some windows is not partial",
        file="engine/windows/panes/grid.py",
        old=("self.offset_us) + self.size_us\n\n\ndef pane_grid"),
        new=("self.offset_us)\n\n\ndef pane_grid"),
        tests=("tests/laws/test_panes.py",),
    ),
    Mutant(
        name="late rows of a NULL key find no session",
        file="engine/windows/sessions/operator.py",
        old='f"{key} <=> {name}"',
        new='f"{key} = {name}"',
        tests=("tests/laws/test_sessions.py",),
    ),
    Mutant(
        name="a segment is forgotten while a window of it is open",
        file="engine/windows/panes/operator.py",
        old="self.grid.last_end(segment.last_us) > bound_us",
        new="self.grid.last_end(segment.last_us) > bound_us + self.grid.stride_us",
        tests=cases("hopping or lateness"),
    ),
    Mutant(
        name="an event time in the future moves the watermark",
        file="engine/rows/fates.py",
        old=("    Fate.FUTURE_EVENT_TIME,\n    Fate.EVENT_TIME_OUT_OF_RANGE,\n)"),
        new=("    Fate.EVENT_TIME_OUT_OF_RANGE,\n)"),
        tests=cases("watermark or side_output"),
    ),
    Mutant(
        name="the state of another query is taken",
        file="engine/checkpoint.py",
        old=(
            "        check_fingerprint(state, self._job.plan.fingerprint, checkpoint=self.folder)\n"
        ),
        new="",
        tests=("tests/engine/test_changed_query.py",),
    ),
    Mutant(
        name="a replayed batch is run again",
        file="engine/stepper.py",
        old=("        if self._is_replay(batch):\n"),
        new=("        if False:\n"),
        tests=("tests/crash/test_writers.py",),
    ),
    Mutant(
        name="lateness by record: a hopping row counts in windows that had closed when it came",
        file="engine/windows/panes/operator.py",
        old='first = f"greatest({first}, {AFTER} + {self.grid.stride_us}L)"',
        new='first = f"greatest({first}, {first})"',
        tests=cases("record and hopping"),
    ),
    Mutant(
        name="lateness by record: a row joins a session that has ended",
        file="engine/windows/sessions/record.py",
        old=' AND (x.a IS NULL OR s.l + {gap} >= x.a))"',
        new=')"',
        tests=cases("record and session"),
    ),
    Mutant(
        name="lateness by record: sessions that have parted in an earlier batch are chained",
        file="engine/windows/sessions/operator.py",
        old="behind = [segment for segment in live if segment.came_behind(closing.before_us)]",
        new="behind = [segment for segment in live if segment.name in closing.fresh]",
        tests=cases("record and session"),
    ),
    Mutant(
        name="lateness by record: a session reaches to spans that it does not touch",
        file="engine/windows/sessions/settling.py",
        old="near = between(others, due_us, due_us + self.gap_us, (), time=FIRST)",
        new="near = open_from(others, due_us)",
        tests=cases("record and session"),
    ),
    Mutant(
        name="a close of sessions trusts what an earlier one has found beyond its time",
        file="engine/windows/sessions/ahead.py",
        old="is_within and self.knows(due) and",
        new="self.until_us is not None and self.knows(due) and",
        tests=("tests/engine/test_sessions.py",),
    ),
    Mutant(
        name="a close of sessions forgets what has been written since an earlier one looked",
        file="engine/windows/sessions/ahead.py",
        old="        if rest:\n            since",
        new="        if not near and rest and rest[0].level:\n            since",
        tests=("tests/laws/test_sessions_ahead.py",),
    ),
    Mutant(
        name="a close that looks ahead overlooks keys with two spans that end soon",
        file="engine/windows/sessions/ahead.py",
        old="WHERE _spans > 1",
        new="WHERE _spans > 2",
        tests=("tests/engine/test_sessions.py",),
    ),
    Mutant(
        name="a close of sessions moves the bounds of segments in which nothing is due",
        file="engine/windows/sessions/settling.py",
        old="replace(each, first_us=next_us) if each.first_us < self.due_us else each",
        new="replace(each, first_us=max(each.first_us, next_us))",
        tests=("tests/engine/test_sessions.py",),
    ),
    Mutant(
        name="lateness by record: a sliding window has rows that came after it had closed for them",
        file="engine/windows/sliding/operator.py",
        old="if any(segment.came_behind(ends_from_us) for segment in needed):",
        new="if any(segment.name in closing.fresh for segment in needed if segment.behind_us):",
        tests=cases("record and sliding"),
    ),
    Mutant(
        name="a key in two tasks is searched in each alone",
        file="engine/rows/key_ranges.py",
        old="all(before[1] < after[0] for before, after in pairwise(in_order))",
        new="all(before[1] <= after[0] for before, after in pairwise(in_order))",
        tests=("tests/engine/test_key_search.py",),
    ),
    Mutant(
        name="rows beyond the horizon are duplicates if they are searched in place",
        file="engine/rows/key_search.py",
        old='has_none = f"{is_first} OR {is_beyond} OR ',
        new='has_none = f"{is_first} OR ',
        tests=("tests/engine/test_key_search.py",),
    ),
    Mutant(
        name="bounds of floats from a footer are compared with those that were observed",
        file="engine/rows/key_search.py",
        old="_BOUNDED = (IntegralType, DoubleType, StringType)",
        new="_BOUNDED = (IntegralType, DoubleType, FloatType, StringType)",
        tests=("tests/engine/test_key_ranges.py",),
    ),
    Mutant(
        name="the mark of a duplicate holds for any row at its place",
        file="engine/rows/key_search.py",
        old='short_hash = f"hash({DEDUP_KEY}) & ',
        new='short_hash = f"hash(0) & ',
        tests=("tests/engine/test_key_search.py",),
    ),
    Mutant(
        name="lateness by record: keys are forgotten at the end of a batch",
        file="engine/rows/duplicates.py",
        old="if forgotten and forgotten.may_be(written[0].since_us):",
        new="if False:",
        tests=cases("record and key"),
    ),
    Mutant(
        name="lateness by record: a row takes a place in windows that had closed when it came",
        file="engine/windows/panes/quotas.py",
        old='closed = after_sql(grid) if start.marks_behind else "CAST(NULL AS BIGINT)"',
        new='closed = "CAST(NULL AS BIGINT)"',
        tests=cases("record and hopping"),
    ),
    Mutant(
        name="the shards of partials are late",
        file="engine/rows/shard_rows.py",
        old="CAST(IF({_TIMED}, {time}, NULL) AS DOUBLE)",
        new="CAST(IF({_TIMED}, {time} + 5000000, NULL) AS DOUBLE)",
        tests=cases("shard"),
    ),
    Mutant(
        name="partials of several shards tell none",
        file="engine/rows/shards.py",
        old="            if told.mixed:\n",
        new="            if False:\n",
        tests=cases("shard"),
    ),
    Mutant(
        name="rows in no group tell the shard of no keys",
        file="engine/windows/state_rows.py",
        old='f"IF({KEPT}, xxhash64({start.shard_of_keys}), {PANE})"',
        new='f"xxhash64({start.shard_of_keys})"',
        tests=("tests/engine/test_shards.py",),
    ),
    Mutant(
        name="a refused login is tried again",
        file="connectors/transient.py",
        old="    if _LASTING.search(text):\n        return None\n",
        new="",
        tests=("tests/connectors/test_transient.py",),
    ),
    Mutant(
        name="restarts of a query that never runs a batch are not bounded",
        file="cli/restarts.py",
        old="if self._worked_until - self._started > self.policy",
        new="if self.now() - self._started > self.policy",
        tests=("tests/cli/test_restarts.py",),
    ),
    Mutant(
        name="Java is started so that SIGTERM ends it",
        file="cli/signals.py",
        old="_Deaf.children = True",
        new="_Deaf.children = False",
        tests=("tests/cli/test_signals.py",),
    ),
    Mutant(
        name="a process whose query waits for a restart is ready",
        file="metrics/health.py",
        old="health.state in (State.RUNNING, State.ENDED)",
        new="health.state is not State.STARTING",
        tests=("tests/metrics/test_health.py",),
    ),
    Mutant(
        name="results go to the second sink before the first",
        file="engine/handover.py",
        old="for sink in self.sinks:\n            _pass_on(",
        new="for sink in reversed(self.sinks):\n            _pass_on(",
        tests=("tests/engine/test_several_sinks.py",),
    ),
    Mutant(
        name="results are computed for each sink",
        file="engine/handover.py",
        old="kept = frame.persist()\n    try:\n        if not _reads_once(first)",
        new="kept = frame\n    try:\n        if not _reads_once(first)",
        tests=("tests/engine/test_several_sinks.py",),
    ),
    Mutant(
        name="a query that reads another one follows its watermark a step later",
        file="engine/downstream.py",
        old="follows.watermark_us(step.bound_us)",
        new="self.stepper.state.bound_us",
        tests=("tests/engine/test_downstream.py",),
    ),
    Mutant(
        name="sessions above let the watermark below go a moment too far",
        file="plan/upstream.py",
        old="return bound_us - (time is ResultTime.LAST)",
        new="return bound_us",
        tests=("tests/plan/test_upstream.py",),
    ),
    Mutant(
        name="a result belongs to the instant after its window",
        file="engine/rows/finish.py",
        old="{'' if shows_last else ' - 1'}",
        new="",
        tests=("tests/engine/test_downstream.py",),
    ),
    Mutant(
        name="a step that only readers act on is not announced",
        file="engine/step.py",
        old="early is not None or bool(job.outlets.takers)",
        new="early is not None",
        tests=("tests/engine/test_downstream.py",),
    ),
    Mutant(
        name="the last batch of a backlog ends before its results",
        file="engine/batches.py",
        old="return self._backlog.has_more()",
        new="return True",
        tests=("tests/engine/test_ahead.py",),
    ),
    Mutant(
        name="a batch is run again though it was taken in",
        file="engine/stepper.py",
        old="            taken = announced(taken, self._io)",
        new="            taken.intent",
        tests=("tests/engine/test_ahead.py",),
    ),
    Mutant(
        name="what was taken in waits for the next batch",
        file="engine/start.py",
        old="            batches.finish_taken()",
        new="            pass",
        tests=("tests/engine/test_ahead.py",),
    ),
    Mutant(
        name="a stop does not wait for the step that is being finished",
        file="engine/stream.py",
        old="        self._gate.wait_until_empty()\n        self._batches.settle()\n",
        new="        self._gate.wait_until_empty()\n",
        tests=("tests/engine/test_ahead.py",),
    ),
    Mutant(
        name="late rows of sessions are judged by windows that the step before has closed",
        file="engine/intake.py",
        old="state=lambda: before().tables,",
        new="state=lambda: early.tables,",
        tests=("tests/laws/test_ahead.py",),
    ),
    Mutant(
        name="a drain stops at the first query",
        file="engine/stepper.py",
        old="for link in self._links:\n            link.stepper.drain()",
        new="for link in ():\n            link.stepper.drain()",
        tests=("tests/engine/test_downstream.py",),
    ),
    Mutant(
        name="other rows of an upstream that was set back are skipped",
        file="state/batch.py",
        old="elif batch.offsets_hash != state.offsets_hash:\n        told = f",
        new="elif False:\n        told = f",
        tests=("tests/engine/test_downstream.py",),
    ),
    Mutant(
        name="a stream that is read together is read by each",
        file="engine/beside.py",
        old="kept = rows.persist()",
        new="kept = rows",
        tests=("tests/engine/test_beside.py",),
    ),
    Mutant(
        name="a drain of queries over one stream stops at the first",
        file="engine/beside.py",
        old="for each in self.all:\n            each.drain()",
        new="self.first.drain()",
        tests=("tests/engine/test_beside.py",),
    ),
    Mutant(
        name="a count that Spark does not take stops the query",
        file="spark/batch_plan.py",
        old='            _LOG.debug("Spark does not count %d rows of a source: %s", rows, error)',
        new="            raise RuntimeError from error",
        tests=("tests/engine/test_batch_plan.py",),
    ),
    Mutant(
        name="Spark does not learn how many rows job 1 has read by its plan",
        file="engine/batches.py",
        old="            found.count(count)",
        new="            pass",
        tests=("tests/engine/test_batch_plan.py",),
    ),
    Mutant(
        name="the plan of a filtered source is taken, whose rows are counted elsewhere",
        file="spark/batch_plan.py",
        old='_INNER = frozenset({"Project",',
        new='_INNER = frozenset({"Filter", "Project",',
        tests=("tests/engine/test_batch_plan.py",),
    ),
    Mutant(
        name="the last piece of a large observation is lost",
        file="spark/observe.py",
        old='_PIECE = ".{1,6000}"',
        new='_PIECE = ".{6000}"',
        tests=("tests/engine/test_frames.py",),
    ),
    Mutant(
        name="a query overtakes a waiting batch again and again",
        file="spark/pools.py",
        old="if turn.overtaken_by[query] >= OVERTAKES)",
        new="if False)",
        tests=("tests/engine/test_pools.py",),
    ),
    Mutant(
        name="keys that the next batch may be reading are merged and deleted",
        file="engine/merging.py",
        old="if epoch_of(each.name) == epoch)",
        new="if False)",
        tests=("tests/engine/test_ahead.py",),
    ),
    Mutant(
        name="a shard whose rows alone have changed is not written",
        file="state/shard_map.py",
        old="zip(self._times_us, self._clocks_us, self._rows, strict=True)",
        new="zip(self._times_us, self._clocks_us, self._clocks_us, strict=True)",
        tests=("tests/laws/test_shard_map.py",),
    ),
    Mutant(
        name="a clock that goes back brings back keys that the step before forgets",
        file="engine/intake.py",
        old="known = early if leap is None else before()",
        new="known = early",
        tests=("tests/engine/test_known_keys.py",),
    ),
)
