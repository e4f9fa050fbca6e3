import pytest

from tidegate.config.lines import find_places, nearest_place, string_offset

TEXT = '''\
# A comment with a = sign.
[pipeline]  # another
name = "a # b"
[sources."my flights"]
options = { header = true, "x" = [1, 2] }
list = [
  "one", # ] not the end
  "two",
]
[transforms.delays]
sql = """
SELECT '[not a header]'
x = 1
""" # done
side_output.late.sink = 'out'
'''


def line_of(path: tuple[str, ...]) -> int:
    place = nearest_place(find_places(TEXT), path)
    assert place is not None
    return TEXT.count("\n", 0, place.start) + 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("pipeline",), 2),
        (("pipeline", "name"), 3),
        (("sources", "my flights"), 4),
        (("sources", "my flights", "options"), 5),
        (("sources", "my flights", "list"), 6),
        (("transforms", "delays", "sql"), 11),
        (("transforms", "delays", "side_output"), 15),
        (("transforms", "delays", "side_output", "late", "sink"), 15),
    ],
)
def test_a_key_is_found_on_its_line(path, line):
    assert line_of(path) == line


def test_a_key_inside_an_inline_table_has_the_place_of_the_table():
    assert line_of(("sources", "my flights", "options", "header")) == 5


def test_text_inside_a_long_string_is_not_a_key():
    assert ("transforms", "delays", "x") not in find_places(TEXT)


def test_a_long_string_starts_after_its_first_line_break():
    place = find_places(TEXT)["transforms", "delays", "sql"]
    value = "SELECT '[not a header]'\nx = 1\n"
    assert string_offset(TEXT, place, value) == TEXT.index("SELECT")


def test_a_string_with_escapes_has_no_offset():
    text = 'sql = "SELECT \\"a\\""\n'
    assert string_offset(text, find_places(text)[("sql",)], 'SELECT "a"') is None
