from click.testing import CliRunner

from tidegate import config
from tidegate.cli import main
from tidegate.environment import missing_variables, with_values, without_values


def test_a_variable_stands_for_its_value_which_is_not_read_again(monkeypatch):
    monkeypatch.setenv("TIDEGATE_USER", "ann-${TIDEGATE_PASSWORD}")
    monkeypatch.setenv("TIDEGATE_PASSWORD", "pass-word")
    options = {"a": "u=${TIDEGATE_USER}", "b": "$TIDEGATE_USER ${env:X} {TIDEGATE_USER}"}
    assert with_values(options) == {"a": "u=ann-${TIDEGATE_PASSWORD}", "b": options["b"]}


def test_a_variable_that_is_not_set_stays_as_it_is():
    assert with_values({"a": "${TIDEGATE_GONE}"}) == {"a": "${TIDEGATE_GONE}"}


def test_variables_that_are_not_set_are_named(monkeypatch):
    monkeypatch.setenv("TIDEGATE_THERE", "")
    assert missing_variables("${TIDEGATE_THERE} ${TIDEGATE_GONE}") == ["TIDEGATE_GONE"]


def test_a_message_shows_the_name_in_place_of_a_value_that_was_put_in(monkeypatch):
    monkeypatch.setenv("TIDEGATE_SECRET", "s3cret-word")
    assert without_values("login s3cret-word failed") == "login s3cret-word failed"
    with_values({"password": "${TIDEGATE_SECRET}"})
    assert without_values("login s3cret-word failed") == "login ${TIDEGATE_SECRET} failed"


def test_what_a_command_prints_of_a_failure_has_no_values(monkeypatch):
    def fails(asked: object) -> None:
        raise OSError("login with s3cret-word refused")

    monkeypatch.setenv("TIDEGATE_SECRET", "s3cret-word")
    with_values({"password": "${TIDEGATE_SECRET}"})
    monkeypatch.setattr(config, "load_config", fails)
    result = CliRunner().invoke(main, ["--verbose", "run", "pipeline.toml"])
    assert "Traceback" in result.output
    assert "login with ${TIDEGATE_SECRET} refused" in result.output
    assert "s3cret-word" not in result.output
