"""``tidegate replay`` of records of side output that are in a topic."""

from __future__ import annotations

import json

from click.testing import CliRunner

from systems.pipelines import from_topic, run
from systems.topics import Record
from tidegate.cli import main

SQL = """
SELECT user, sum(60 / n) AS n, window_id() AS id
FROM clicks GROUP BY tumblingwindow('mi', 1), user
"""
SOURCE = 'value = "json"\nschema = "user STRING, n INT, ts TIMESTAMP"'


def click(user, n, ts):
    return Record(value=json.dumps({"user": user, "n": n, "ts": f"2026-01-01T{ts}Z"}).encode())


def replay(folder, records, *more):
    words = ["replay", f"{folder}/pipeline.toml", records, "--format", "json", *more]
    ended = CliRunner().invoke(main, [*words, "--into", f"{folder}/{len(list(folder.iterdir()))}"])
    return ended.exit_code, ended.output


def test_the_records_of_a_topic_are_run_again_and_repeats_once(topics, tmp_path):
    pipeline = from_topic(
        topics, "late", source=SOURCE, sql=SQL, transform='event_time_field = "ts"'
    )
    topics.write("late", [click("ann", 1, "10:00:01.000001"), click("bob", 1, "10:05:00")])
    assert run(tmp_path, pipeline).code == 0
    again = [click("ann", 2, "10:00:02"), click("ann", 3, "10:00:02"), click("ann", 0, "10:05:01")]
    topics.write("late", again)
    assert run(tmp_path, pipeline).code == 0
    bad = topics.read("late-bad")
    assert sorted(record.json["kind"] for record in bad) == ["error", "late", "late"]

    # As after a crash, one record has come twice; others of the topic are not ours.
    topics.write("late-bad", [bad[0], Record(value=b"{"), Record(value=b'{"kind": null}')])
    code, told = replay(tmp_path, "bad", "--kind", "late")
    assert code == 0, told
    assert "late: 2 rows run again\n1 corrections in " in told
    assert told.endswith("left out as repeats: 1 records (--keep-repeats runs them)\n")
    (correction,) = corrections(tmp_path)
    (emitted,) = (r.json for r in topics.read("late-out") if r.json["user"] == "ann")
    assert (correction["user"], correction["n"]) == ("ann", 50.0)
    assert correction["corrects_window_id"] == emitted["id"]
    code, told = replay(tmp_path, "bad", "--keep-repeats")
    assert code == 0, told
    assert "failed again: 1 division_by_zero" in told or "failed again: 2 division" in told
    assert "repeats" not in told
    assert sum(int(line.split()[1]) for line in told.splitlines() if "run again" in line) == 4

    code, told = replay(tmp_path, "out")
    assert code == 1
    assert told.startswith("sinks.out takes results, not rows that could not be used")
    topics.delete("late-bad")
    code, told = replay(tmp_path, "bad")
    assert code == 1
    assert told.startswith("sinks.bad: ")
    assert "Create the topic" in told


def corrections(folder):
    files = [file for file in folder.rglob("*.json") if "checkpoint" not in file.parts]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
