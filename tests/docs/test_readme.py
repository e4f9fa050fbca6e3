"""The example of the README runs as it stands, and shows what the README shows."""

from __future__ import annotations

import pytest

from docs.pages import ROOT, blocks


@pytest.mark.whole
@pytest.mark.usefixtures("interpreted")
def test_the_example_of_the_readme_ends_with_the_rows_that_it_shows(tmp_path, capsys):
    found = blocks(ROOT / "README.md")
    place = next(number for number, block in enumerate(found) if "MemorySink" in block.text)
    example, shown = found[place : place + 2]
    assert example.language == "python"
    code = example.text
    # A relative path is in the folder in which Java was started.
    for path, here in (("examples/", ROOT / "examples"), ("checkpoint/", tmp_path)):
        assert f'"{path}' in code
        code = code.replace(f'"{path}', f'"{here}/')
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip() == shown.text.strip()
