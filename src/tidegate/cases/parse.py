"""Reads ``.case`` files: splits lines into blocks, then makes cases of the blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from textwrap import dedent

from tidegate.cases.blocks import Block, split_blocks
from tidegate.cases.model import (
    COUNTERS,
    SIDE_BLOCKS,
    Batch,
    Case,
    CaseError,
    Clock,
    Drain,
    Rows,
    Step,
    Stream,
    Table,
)
from tidegate.cases.steps import STEP_BLOCKS, read_step
from tidegate.cases.tables import read_column, read_rows, read_toml, read_typed_row


def read_cases(path: str | PathLike[str]) -> tuple[Case, ...]:
    """Return the cases of a file, in order.

    Raises:
        CaseError: the file cannot be read as cases.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
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
    for block in split_blocks(text, path):
        if block.word == "case:":
            groups.append([])
        elif not groups:
            raise block.fail(f"{block.word!r} is before the first case", 'Begin with "case: NAME".')
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
            draft.steps.append(read_step(block, answers, draft.stream))
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
    """Yield each block with the expectations (``watermark``, ``emitted`` ..) that follow it."""
    i = 0
    while i < len(blocks):
        block, i = blocks[i], i + 1
        answers = []
        while i < len(blocks) and blocks[i].word in ("watermark", "emitted", *SIDE_BLOCKS):
            answers.append(blocks[i])
            i += 1
        if answers and block.word not in ("batch", "clock", "drain", "flush"):
            raise answers[0].fail(
                f"{answers[0].word!r} follows {block.word!r}, which takes no expectation",
                "Write it after a batch, clock, drain or flush.",
            )
        yield block, answers


def _check_complete(head: Block, draft: _Draft) -> tuple[Stream, str]:
    if draft.stream is None:
        raise head.fail(
            "the case has no stream",
            'Add a block "stream NAME" with one column and its type on each line.',
        )
    if draft.query is None:
        raise head.fail("the case has no query", 'Add a block "query" with the statement.')
    if draft.error is None and not draft.steps:
        raise head.fail("the case has no batch and no error", 'Add a block "batch" or "error".')
    if draft.error is not None and (draft.steps or draft.final or draft.counts):
        raise head.fail(
            "the case expects an error, but has batches or expectations",
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
                "the step has no emitted block, and the case has no final block",
                'Write "emitted" with rows, or "nothing", after every batch, clock and drain.',
                step.line,
            )
        if case.any_cuts and (
            isinstance(step, Clock) or (isinstance(step, Batch) and step.clock_us is not None)
        ):
            raise head.fail(
                'cuts = "any" cannot be combined with clocks',
                "Remove the clocks, or remove cuts.",
                step.line,
            )


def _read_stream(block: Block, draft: _Draft) -> None:
    if draft.stream is not None:
        raise block.fail(
            "the case has a second stream", "A case has one stream; declare the others as tables."
        )
    columns = []
    for line in block.lines:
        name, _, type_name = line.text.strip().partition(" ")
        columns.append(read_column(block, line.number, name, type_name))
    if not block.rest or not columns:
        raise block.fail(
            "the stream has no name or no columns", "Write one column and its type on each line."
        )
    draft.stream = Stream(name=block.rest, columns=tuple(columns))


def _read_table(block: Block, draft: _Draft) -> None:
    if not block.rest or not block.lines:
        raise block.fail(
            "the table has no name or no header", 'Write "table NAME" and under it "name TYPE, ..".'
        )
    header, *rows = block.lines
    columns = []
    for part in re.split(r",(?![^(<]*[)>])", header.text):
        name, _, type_name = part.strip().partition(" ")
        columns.append(read_column(block, header.number, name, type_name))
    typed = tuple(read_typed_row(block, line, tuple(columns)) for line in rows)
    draft.tables.append(Table(name=block.rest, columns=tuple(columns), rows=typed))


def _read_settings(block: Block, draft: _Draft) -> None:
    draft.settings.update(read_toml(block))


def _read_query(block: Block, draft: _Draft) -> None:
    if not block.lines:
        raise block.fail("the query is empty", "Write the statement, indented.")
    draft.query = dedent("\n".join(line.text for line in block.lines)).strip()


def _read_counts(block: Block, draft: _Draft) -> None:
    counts = read_toml(block)
    for name, value in counts.items():
        if name not in COUNTERS or not isinstance(value, int):
            raise block.fail(
                f"{name} = {value!r} is not a counter", f"The counters are: {', '.join(COUNTERS)}."
            )
    draft.counts = {name: int(str(value)) for name, value in counts.items()}


def _read_final(block: Block, draft: _Draft) -> None:
    draft.final = read_rows(block)


def _read_error(block: Block, draft: _Draft) -> None:
    text = "\n".join(line.text.strip() for line in block.lines)
    if not text:
        raise block.fail("the error has no text", "Write a part of the expected message, indented.")
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


def has_order_by(query: str) -> bool:
    """Return whether a statement has an ORDER BY outside brackets, string literals and comments.

    >>> has_order_by("SELECT max(a) AS o FROM t GROUP BY w('order by') ORDER  BY o")
    True
    """
    bare = re.sub(
        r"'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL
    )
    while (shorter := re.sub(r"\([^()]*\)", " ", bare)) != bare:
        bare = shorter
    return re.search(r"\border\s+by\b", bare, flags=re.IGNORECASE) is not None
