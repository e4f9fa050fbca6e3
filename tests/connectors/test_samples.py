"""Text files are looked at before Spark reads them wrong; this needs no Spark."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tidegate.connectors.samples import MOST_BYTES, MOST_FILES, check_samples
from tidegate.errors import ConfigError


def told(path: Path, file_format: str = "csv", **options: str) -> str | None:
    """Return the first line of what is wrong with files, without the folder; None: nothing is."""
    try:
        check_samples(file_format, str(path), options, "{}={}".format)
    except ConfigError as error:
        return str(error).partition("\n")[0].replace(f"{path}/", "").replace(f"{path.parent}/", "")
    return None


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"a,b\n1,2\n", None),
        (b"\xef\xbb\xbfa,b\n", None),
        ("a,é\n".encode(), None),
        (b'a,"b, ""c"" d"\n1,5" disk\n', None),
        (b'a,b\n1,"c\nd"\n', "a.csv, line 2: a quoted value continues in the next line"),
        (b"a,b\n1,\xe9\n", "a.csv, line 2: byte 0xe9 is not UTF-8"),
        (b"\xff\xfe" + "a,b\n".encode("utf-16-le"), "a.csv is in UTF-16, by its first"),
        (b"\xff\xfe\x00\x00a\x00\x00\x00", "a.csv is in UTF-32, by its first bytes"),
        (b"a" * (MOST_BYTES - 1) + "é".encode(), None),
    ],
)
def test_what_spark_would_read_wrong_is_found(tmp_path, content, what):
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    packed = tmp_path / "packed" / "a.csv.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(content))
    for found in (told(file), told(tmp_path), (told(packed) or "").replace(".gz", "") or None):
        assert (found or "").startswith(what or "")
        assert (found is None) == (what is None)


def test_options_that_read_it_are_taken_at_their_word(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b'a,b\n1,"c\n\xe9"\n')
    assert told(file, encoding="ISO-8859-1") is not None
    assert told(file, encoding="ISO-8859-1", multiline="true") is None
    file.write_text("a,'b\nc'\n")
    assert told(file) is None
    assert told(file, quote="'") is not None


def test_a_document_of_json_over_several_lines_is_told_from_records(tmp_path):
    file = tmp_path / "a.json"
    for text, wrong in (
        ('{"a": 1}\n{"a": 2}\n', False),
        ('[{"a": 1}, {"a": 2}]\n', False),
        ("not json\n", False),
        ("", False),
        ('[\n{"a": 1}\n]\n', True),
        ('{\n"a": 1\n}\n', True),
    ):
        file.write_text(text)
        assert (told(file, "json") is not None) == wrong, text


def test_hidden_and_later_files_are_not_looked_at(tmp_path):
    (tmp_path / "_SUCCESS").write_bytes(b"\xe9")
    (tmp_path / "_old").mkdir()
    (tmp_path / "_old" / "a.csv").write_bytes(b"\xe9")
    for number in range(MOST_FILES):
        (tmp_path / f"{number:02}.csv").write_text("a\n")
    (tmp_path / "99.csv").write_bytes(b"\xe9")
    assert told(tmp_path) is None
    assert told(tmp_path / "9*.csv") is not None
