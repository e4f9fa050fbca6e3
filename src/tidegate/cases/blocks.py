"""The blocks of a ``.case`` file.

An unindented line starts a block, indented lines belong to it, a line that begins with ``#`` is a
comment.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.cases.model import CaseError

BLOCKS = (
    "case: stream table settings query batch clock stop drain flush watermark emitted "
    "late errors duplicates evicted counts final error"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a file without its indentation, and its number from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An unindented line, as first word and rest, with the indented lines under it."""

    path: str
    number: int
    word: str
    rest: str
    lines: list[Line] = field(default_factory=list)

    def fail(self, what: str, mend: str, number: int | None = None) -> CaseError:
        """Return an error at one of the block's lines, by default the first."""
        return CaseError(what, path=self.path, line=number or self.number, mend=mend)


def split_blocks(text: str, path: str) -> list[Block]:
    """Return the blocks of a text; raises CaseError for a line outside any block."""
    blocks: list[Block] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.expandtabs(4).rstrip()
        if line.lstrip().startswith("#") or not line:
            continue
        if line[0] == " ":
            if not blocks:
                raise CaseError(
                    "an indented line is outside any block",
                    path=path,
                    line=number,
                    mend='Begin with "case: NAME".',
                )
            blocks[-1].lines.append(Line(number=number, text=line))
            continue
        word, _, rest = line.partition(" ")
        if word not in BLOCKS:
            raise CaseError(
                f"{word!r} is not a block",
                path=path,
                line=number,
                mend=f"The blocks are: {', '.join(BLOCKS)}.",
            )
        blocks.append(Block(path=path, number=number, word=word, rest=rest.strip()))
    return blocks
