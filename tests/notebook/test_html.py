"""What notebooks show as HTML: the facts of plans, results and runs, with all data escaped."""

from __future__ import annotations

from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

import tidegate as tg
from tidegate.notebook.markup import element, escaped, table
from tidegate.notebook.progress import draw_run, status_html

EVIL = "<script>alert(\"1\")</script><img src=x onerror='x'>"
VOID = ("img", "br", "hr", "input", "meta", "link")


class Reader(HTMLParser):
    """Reads HTML, whose elements must be closed in order; keeps its tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in VOID
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def query(condition: str = "true") -> tg.Query:
    return tg.sql(
        f"SELECT page, count(*) AS n FROM clicks WHERE {condition} "
        "GROUP BY tumblingwindow('ss', 10), page",
        clicks="ts TIMESTAMP, page STRING",
        settings={"event_time_field": "ts"},
    )


def status(**others: object) -> dict[str, object]:
    counts = dict.fromkeys(tg.BatchReport.__mro__[1].__slots__, 0)
    facts = {"active": True, "failure": None, "batch_id": -1, "watermark": None, "open_windows": 0}
    return {**counts, **facts, "state_rows": 0, "segments": 0, **others}


def sources() -> dict[str, str]:
    condition = "page <> '" + EVIL.replace("'", "''") + "'"
    return {
        "query": query(condition)._repr_html_(),
        "plan": query(condition).explain()._repr_html_(),
        "run": status_html(EVIL, status(failure=EVIL)),
        "drawing": draw_run(EVIL, [])._repr_html_(),
        "rows": table([EVIL], [[EVIL]], caption=EVIL),
    }


@pytest.mark.parametrize("name", sources())
def test_what_comes_from_data_is_text(name: str) -> None:
    html = sources()[name]
    read = Reader(html)
    assert "script" not in read.tags
    assert not any(attribute.startswith("on") for attribute in read.attributes)
    assert "<script>" not in html
    assert "alert(" in read.text, "it is shown"
    for outside in ("http://", "https://", "src="):
        assert outside not in html.replace('xmlns="http://www.w3.org/2000/svg"', "").replace(
            escaped("src=x"), ""
        )


def test_a_query_is_short_in_a_terminal() -> None:
    plan_id = query().physical.plan_id
    assert repr(query()) == f"<Query: tumbling window over clicks, plan {plan_id}>"


def test_a_query_shows_its_statement_its_columns_and_both_plans() -> None:
    text = Reader(query()._repr_html_()).text
    for part in ("SELECT page, count(*) AS n", "page, n", "PhysicalWatermark#", "Aggregation#"):
        assert part in text


def test_explain_is_its_text_and_shows_the_same_facts() -> None:
    explained = query().explain()
    assert explained == str(explained)
    assert explained.startswith("Plan ")
    shown = Reader(explained._repr_html_()).text
    for line in explained.splitlines():
        for word in line.replace("|", " ").replace("+-", " ").split():
            assert word in shown, line


def test_the_status_of_a_run_shows_what_is_not_zero() -> None:
    read = Reader(status_html("clicks", status(rows_in=12_345, late=7, batch_id=3)))
    assert "clicks: running" in read.text
    assert "12,345" in read.text
    assert "late" in read.text
    assert "evicted" not in read.text


@pytest.mark.parametrize(
    ("facts", "state"),
    [({}, "running"), ({"active": False}, "ended"), ({"active": False, "failure": "x"}, "failed")],
)
def test_the_status_of_a_run_begins_with_its_state(facts: dict[str, object], state: str) -> None:
    assert Reader(status_html("clicks", status(**facts))).text.startswith(f"clicks: {state}")


def test_a_memory_sink_shows_its_newest_rows() -> None:
    sink = tg.MemorySink()
    assert Reader(sink._repr_html_()).text == "No rows yet"
    for epoch in range(3):
        rows = [(epoch * 10 + i, EVIL) for i in range(10)]
        frame = SimpleNamespace(schema=SimpleNamespace(names=["n", EVIL]), collect=rows.copy)
        sink.write(frame, epoch)  # type: ignore[arg-type]
    html = sink._repr_html_()
    read = Reader(html)
    assert "script" not in read.tags
    assert read.text.startswith("30 rows, the newest 20")
    assert [n for n in range(30) if f">{n}</td>" in html] == list(range(10, 30))


def test_a_table_tells_null_from_text() -> None:
    assert "<i>NULL</i>" in table(["a"], [[None]])
    assert "<i>NULL</i>" not in table(["a"], [["NULL"]])


def test_characters_that_markup_cannot_have_are_marked() -> None:
    assert element("b", "a\x00b\ud800c\td") == "<b>a\ufffdb\ufffdc\td</b>"
