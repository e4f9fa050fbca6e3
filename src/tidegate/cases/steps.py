"""Reads the steps of a case, each with the expectations that follow it."""

from __future__ import annotations

from tidegate.cases.blocks import Block
from tidegate.cases.model import (
    SIDE_BLOCKS,
    Batch,
    Clock,
    Drain,
    Expected,
    Flush,
    Step,
    Stop,
    Stream,
)
from tidegate.cases.tables import read_cells, read_moment, read_rows, read_typed_row

STEP_BLOCKS = ("batch", "clock", "stop", "drain", "flush")


def read_step(block: Block, answers: list[Block], stream: Stream | None) -> Step:
    """Return the step of a block, with values of the stream's types; raises CaseError."""
    expected = _read_expected(answers)
    match block.word:
        case "batch":
            at = block.rest.removeprefix("at ") if block.rest else None
            if at is not None and at == block.rest:
                raise block.fail(f"batch {block.rest!r}", 'Write "batch" or "batch at 10:00:20".')
            clock_us = None if at is None else read_moment(block, at)
            return Batch(
                line=block.number,
                rows=_read_batch(block, stream),
                clock_us=clock_us,
                expected=expected,
            )
        case "clock":
            return Clock(
                line=block.number, clock_us=read_moment(block, block.rest), expected=expected
            )
        case "stop":
            return Stop(line=block.number)
        case "drain":
            return Drain(line=block.number, expected=expected)
        case _:
            return Flush(line=block.number, expected=expected)


def _read_batch(block: Block, stream: Stream | None) -> tuple[tuple[object, ...], ...]:
    if stream is None:
        raise block.fail(
            "the batch is before the stream", 'Move the block "stream NAME" before it.'
        )
    if not block.lines:
        raise block.fail(
            "the batch has no rows", "Write a header line and rows, or use a clock block."
        )
    header, *rows = block.lines
    types = {column.name: column for column in stream.columns}
    names = [cell.text for cell in read_cells(header)]
    if sorted(names) != sorted(types):
        raise block.fail(
            f"the columns are {', '.join(names)}",
            f"The stream has {', '.join(types)}.",
            header.number,
        )
    columns = tuple(types[name] for name in names)
    order = [names.index(name) for name in types]
    typed = [read_typed_row(block, line, columns) for line in rows]
    return tuple(tuple(row[i] for i in order) for row in typed)


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
        emitted=read_rows(blocks["emitted"]) if "emitted" in blocks else None,
        side={
            SIDE_BLOCKS[word]: read_rows(block)
            for word, block in blocks.items()
            if word in SIDE_BLOCKS
        },
        checks_watermark=watermark is not None,
        watermark_us=None
        if watermark is None or watermark.rest == "none"
        else read_moment(watermark, watermark.rest),
    )
