"""The examples on pages: Python that compiles, settings that exist, JSON that can be read.

Statements and cases are in ``test_docs``; the commands of the tutorial are run by
``tests/systems/test_tutorial.py``.
"""

from __future__ import annotations

import json
import tomllib

import pytest
from pydantic import BaseModel, ValidationError

from docs.pages import PAGES, Block, blocks
from tidegate.config.model import PipelineFile, SinkSection, SourceSection, TransformSection

# An example without the header of its section is a part of one of these.
SECTIONS: list[type[BaseModel]] = [TransformSection, SourceSection, SinkSection]

BLOCKS = [block for path in PAGES for block in blocks(path)]


def of_language(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def place(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", of_language("python"), ids=place)
def test_python_compiles(block: Block) -> None:
    # The signature of a call is shown as in a help text: name(arguments) -> type.
    if not block.text.rstrip().splitlines()[-1].partition(") -> ")[2]:
        compile(block.text, place(block), "exec")


@pytest.mark.parametrize("block", of_language("toml"), ids=place)
def test_a_pipeline_has_only_keys_and_values_that_there_are(block: Block) -> None:
    """An example may be a part of a file; what it has must be right."""
    data = tomllib.loads(block.text)
    known = PipelineFile.model_fields.keys()
    models = [PipelineFile] if data.keys() & known else SECTIONS
    assert min((wrong_in(data, model) for model in models), key=len) == []


def wrong_in(data: dict[str, object], model: type[BaseModel]) -> list[str]:
    try:
        model.model_validate(data)
    except ValidationError as error:
        return [each["msg"] for each in error.errors() if each["type"] != "missing"]
    return []


@pytest.mark.parametrize("block", of_language("json"), ids=place)
def test_json_can_be_read(block: Block) -> None:
    rest, decoder = block.text.strip(), json.JSONDecoder()
    while rest:
        _, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
