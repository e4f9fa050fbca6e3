"""Reading ``.case`` files: blocks of lines first, then a case from its blocks.

An unindented line starts a block, indented lines belong to it, a line that begins with ``#`` is a
comment. Columns are two or more spaces apart.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from tidegate.cases.model import (
    COUNTERS,
    SIDE_BLOCKS,
    Batch,
    Case,
    CaseError,
    Cell,
    Clock,
    Column,
    Drain,
    Expected,
    Flush,
    Rows,
    Step,
    Stop,
    Stream,
    Table,
)
from tidegate.cases.values import read_cell, read_text, read_time

BLOCKS = (
    "case: stream table settings query batch clock stop drain flush watermark emitted "
    "late errors duplicates evicted counts final error"
).split()
STEP_BLOCKS = ("batch", "clock", "stop", "drain", "flush")

_CELL = re.compile(r'"[^"]*"(?=\s{2,}|\s*$)|\S+(?: \S+)*')


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a file without its indentation, and its number from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An unindented line, split into its word and the rest, and the indented lines under it."""

    path: str
    number: int
    word: str
    rest: str
    lines: list[Line] = field(default_factory=list)

    def fail(self, what: str, mend: str, number: int | None = None) -> CaseError:
        """Return the error for this block, at one of its lines or at its head."""
        return CaseError(what, path=self.path, line=number or self.number, mend=mend)


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file, in its order.

    Raises:
        CaseError: the file cannot be read as cases.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(
            f"the file cannot be read: {error}", path=str(path), line=1, mend="Name a .case file."
        ) from error
    return parse_cases(text, str(path))


def parse_cases(text: str, path: str = "case") -> tuple[Case, ...]:
    """Return the cases of a text; ``path`` is its name in messages.

    Raises:
        CaseError: the text is malformed.
    """
    groups: list[list[Block]] = []
    for block in _split_blocks(text, path):
        if block.word == "case:":
            groups.append([])
        elif not groups:
            raise block.fail(
                f"{block.word!r} stands before the first case", 'Begin with "case: NAME".'
            )
        groups[-1].append(block)
    if not groups:
        raise CaseError(
            "there is no case in the file", path=path, line=1, mend='Begin with "case: NAME".'
        )
    cases = tuple(_read_case(blocks) for blocks in groups)
    seen: dict[str, int] = {}
    for case in cases:
        if case.name in seen:
            raise CaseError(
                f"a case of this name is on line {seen[case.name]} already: {case.name}",
                path=path,
                line=case.line,
                mend="Give every case of a file its own name.",
            )
        seen[case.name] = case.line
    return cases


def _split_blocks(text: str, path: str) -> list[Block]:
    blocks: list[Block] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.expandtabs(4).rstrip()
        if line.lstrip().startswith("#") or not line:
            continue
        if line[0] == " ":
            if not blocks:
                raise CaseError(
                    "an indented line belongs to no block",
                    path=path,
                    line=number,
                    mend='Begin with "case: NAME".',
                )
            blocks[-1].lines.append(Line(number=number, text=line))
            continue
        word, _, rest = line.partition(" ")
        if word not in BLOCKS:
            raise CaseError(
                f"{word!r} starts no block",
                path=path,
                line=number,
                mend=f"The blocks are: {', '.join(BLOCKS)}.",
            )
        blocks.append(Block(path=path, number=number, word=word, rest=rest.strip()))
    return blocks


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A case while its blocks are read."""

    stream: Stream | None = None
    tables: list[Table] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)
    query: str | None = None
    steps: list[Step] = field(default_factory=list)
    final: Rows | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


def _read_case(blocks: list[Block]) -> Case:
    head, *rest = blocks
    if not head.rest:
        raise head.fail("the case has no name", 'Write "case: " and a sentence.')
    draft = _Draft()
    waiting = iter(_group_steps(rest))
    for block, answers in waiting:
        if block.word in STEP_BLOCKS:
            draft.steps.append(_read_step(block, answers, draft))
        else:
            _DRAFTERS[block.word](block, draft)
    stream, query = _check_complete(head, draft)
    any_cuts = draft.settings.pop("cuts", None)
    if any_cuts not in (None, "any"):
        raise head.fail(f"cuts is {any_cuts!r}", 'Write cuts = "any", or leave it out.')
    case = Case(
        path=head.path,
        line=head.number,
        name=head.rest,
        stream=stream,
        tables=tuple(draft.tables),
        settings=draft.settings,
        any_cuts=any_cuts is not None,
        query=query,
        ordered=has_order_by(query),
        steps=tuple(draft.steps),
        final=draft.final,
        counts=draft.counts,
        error=draft.error,
    )
    _check_answers(head, case)
    return case


def _group_steps(blocks: list[Block]) -> Iterator[tuple[Block, list[Block]]]:
    """Yield each block with the answers (``watermark``, ``emitted``, ``late`` ..) that follow it."""
    i = 0
    while i < len(blocks):
        block, i = blocks[i], i + 1
        answers = []
        while i < len(blocks) and blocks[i].word in ("watermark", "emitted", *SIDE_BLOCKS):
            answers.append(blocks[i])
            i += 1
        if answers and block.word not in ("batch", "clock", "drain", "flush"):
            raise answers[0].fail(
                f"{answers[0].word!r} follows {block.word!r}, which has no answer",
                "Write it after a batch, clock, drain or flush.",
            )
        yield block, answers


def _check_complete(head: Block, draft: _Draft) -> tuple[Stream, str]:
    if draft.stream is None:
        raise head.fail(
            "the case has no stream", 'Add a block "stream NAME" with a column and its type a line.'
        )
    if draft.query is None:
        raise head.fail("the case has no query", 'Add a block "query" with the statement.')
    if draft.error is None and not draft.steps:
        raise head.fail("the case has no batch and no error", 'Add a block "batch" or "error".')
    if draft.error is not None and (draft.steps or draft.final or draft.counts):
        raise head.fail(
            "the case expects an error, and has batches or answers",
            "A refused statement never runs.",
        )
    return draft.stream, draft.query


def _check_answers(head: Block, case: Case) -> None:
    for step in case.steps:
        if (
            isinstance(step, Batch | Clock | Drain)
            and step.expected.emitted is None
            and case.final is None
        ):
            raise head.fail(
                "the step has no emitted block, and the case no final",
                'Write "emitted" with the expected rows, or "nothing", after every batch, clock and drain.',
                step.line,
            )
        if case.any_cuts and (
            isinstance(step, Clock) or (isinstance(step, Batch) and step.clock_us is not None)
        ):
            raise head.fail(
                'cuts = "any" cannot be tried where a clock is given',
                "Leave out the clocks, or cuts.",
                step.line,
            )


def has_order_by(query: str) -> bool:
    """Return whether a statement has an ORDER BY of its own, not one in brackets, a text or a comment.

    >>> has_order_by("SELECT max(a) AS o FROM t GROUP BY w('order by') ORDER  BY o")
    True
    """
    bare = re.sub(
        r"'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL
    )
    while (shorter := re.sub(r"\([^()]*\)", " ", bare)) != bare:
        bare = shorter
    return re.search(r"\border\s+by\b", bare, flags=re.IGNORECASE) is not None


def _read_stream(block: Block, draft: _Draft) -> None:
    if draft.stream is not None:
        raise block.fail(
            "the case has a second stream", "A case has one stream; give the others as tables."
        )
    columns = []
    for line in block.lines:
        name, _, type_name = line.text.strip().partition(" ")
        columns.append(_column(block, line.number, name, type_name))
    if not block.rest or not columns:
        raise block.fail(
            "the stream has no name or no columns", "Write a column and its type a line."
        )
    draft.stream = Stream(name=block.rest, columns=tuple(columns))


def _column(block: Block, number: int, name: str, type_name: str) -> Column:
    if not type_name.strip():
        raise block.fail(
            f"column {name!r} has no type", "Write the column and its Spark SQL type.", number
        )
    return Column(name=name, type=re.sub(r"\s+", "", type_name).upper())


def _read_table(block: Block, draft: _Draft) -> None:
    if not block.rest or not block.lines:
        raise block.fail(
            "the table has no name or no header", 'Write "table NAME" and under it "name TYPE, ..".'
        )
    header, *rows = block.lines
    columns = []
    for part in re.split(r",(?![^(<]*[)>])", header.text):
        name, _, type_name = part.strip().partition(" ")
        columns.append(_column(block, header.number, name, type_name))
    typed = tuple(_typed_row(block, line, tuple(columns)) for line in rows)
    draft.tables.append(Table(name=block.rest, columns=tuple(columns), rows=typed))


def _read_settings(block: Block, draft: _Draft) -> None:
    draft.settings.update(_read_toml(block))


def _read_toml(block: Block) -> dict[str, object]:
    try:
        return tomllib.loads("\n".join(line.text.strip() for line in block.lines))
    except tomllib.TOMLDecodeError as error:
        raise block.fail(
            f"not TOML: {error}", 'Write lines such as watermark_lag = "2s".'
        ) from error


def _read_query(block: Block, draft: _Draft) -> None:
    if not block.lines:
        raise block.fail("the query is empty", "Write the statement, indented.")
    draft.query = dedent("\n".join(line.text for line in block.lines)).strip()


def _read_counts(block: Block, draft: _Draft) -> None:
    counts = _read_toml(block)
    for name, value in counts.items():
        if name not in COUNTERS or not isinstance(value, int):
            raise block.fail(
                f"{name} = {value!r} is no counter", f"The counters are: {', '.join(COUNTERS)}."
            )
    draft.counts = {name: int(str(value)) for name, value in counts.items()}


def _read_final(block: Block, draft: _Draft) -> None:
    draft.final = _read_rows(block)


def _read_error(block: Block, draft: _Draft) -> None:
    text = "\n".join(line.text.strip() for line in block.lines)
    if not text:
        raise block.fail(
            "the error has no text", "Write a piece of the expected message, indented."
        )
    draft.error = text


_DRAFTERS: dict[str, Callable[[Block, _Draft], None]] = {
    "stream": _read_stream,
    "table": _read_table,
    "settings": _read_settings,
    "query": _read_query,
    "counts": _read_counts,
    "final": _read_final,
    "error": _read_error,
}


def _read_step(block: Block, answers: list[Block], draft: _Draft) -> Step:
    expected = _read_expected(answers)
    match block.word:
        case "batch":
            at = block.rest.removeprefix("at ") if block.rest else None
            if at is not None and at == block.rest:
                raise block.fail(f"batch {block.rest!r}", 'Write "batch" or "batch at 10:00:20".')
            clock_us = None if at is None else _read_moment(block, at)
            return Batch(
                line=block.number,
                rows=_read_batch(block, draft),
                clock_us=clock_us,
                expected=expected,
            )
        case "clock":
            return Clock(
                line=block.number, clock_us=_read_moment(block, block.rest), expected=expected
            )
        case "stop":
            return Stop(line=block.number)
        case "drain":
            return Drain(line=block.number, expected=expected)
        case _:
            return Flush(line=block.number, expected=expected)


def _read_moment(block: Block, text: str) -> int:
    try:
        return read_time(text)
    except ValueError as error:
        raise block.fail(str(error), "Times are UTC.") from error


def _read_batch(block: Block, draft: _Draft) -> tuple[tuple[object, ...], ...]:
    if draft.stream is None:
        raise block.fail("the batch stands before the stream", 'Put the block "stream NAME" first.')
    if not block.lines:
        raise block.fail(
            "the batch has no rows", "Write a header line and rows, or use a clock block."
        )
    header, *rows = block.lines
    types = {column.name: column for column in draft.stream.columns}
    names = [cell.text for cell in _cells(header)]
    if sorted(names) != sorted(types):
        raise block.fail(
            f"the columns are {', '.join(names)}",
            f"The stream has {', '.join(types)}.",
            header.number,
        )
    columns = tuple(types[name] for name in names)
    order = [names.index(name) for name in types]
    typed = [_typed_row(block, line, columns) for line in rows]
    return tuple(tuple(row[i] for i in order) for row in typed)


def _typed_row(block: Block, line: Line, columns: tuple[Column, ...]) -> tuple[object, ...]:
    cells = _row_cells(block, line, len(columns))
    try:
        return tuple(
            read_cell(cell, column.type) for cell, column in zip(cells, columns, strict=True)
        )
    except ValueError as error:
        raise block.fail(
            str(error), "Text with spaces goes in double quotes; NULL stands bare.", line.number
        ) from error


def _read_expected(answers: list[Block]) -> Expected:
    blocks: dict[str, Block] = {}
    for block in answers:
        if block.word in blocks:
            raise block.fail(
                f"a second {block.word!r} for the same step", "Put all rows into one block."
            )
        blocks[block.word] = block
    watermark = blocks.get("watermark")
    return Expected(
        emitted=_read_rows(blocks["emitted"]) if "emitted" in blocks else None,
        side={
            SIDE_BLOCKS[word]: _read_rows(block)
            for word, block in blocks.items()
            if word in SIDE_BLOCKS
        },
        checks_watermark=watermark is not None,
        watermark_us=None
        if watermark is None or watermark.rest == "none"
        else _read_moment(watermark, watermark.rest),
    )


def _read_rows(block: Block) -> Rows:
    if not block.lines:
        raise block.fail(
            f"{block.word!r} has no rows", 'Write a header line and rows, or "nothing".'
        )
    header, *rows = block.lines
    if not rows and header.text.strip() == "nothing":
        return Rows()
    names = tuple(cell.text for cell in _cells(header))
    if len(set(names)) != len(names):
        raise block.fail(
            "a column is named twice", "Give every column its own name.", header.number
        )
    return Rows(columns=names, rows=tuple(_row_cells(block, line, len(names)) for line in rows))


def _row_cells(block: Block, line: Line, count: int) -> tuple[Cell, ...]:
    cells = _cells(line)
    if len(cells) != count:
        raise block.fail(
            f"the row has {len(cells)} cells, the header {count}",
            "Columns are two or more spaces apart; text with spaces goes in double quotes.",
            line.number,
        )
    return cells


def _cells(line: Line) -> tuple[Cell, ...]:
    return tuple(read_text(text) for text in _CELL.findall(line.text))
