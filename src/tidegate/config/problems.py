"""Error messages about a configuration: the place, the value, the rule and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.config.lines import Place, find_places, nearest_place
from tidegate.names import nearest, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A mistake: its ``path`` (section, name, key ..), what is wrong, and the mend.

    ``meant`` is the existing path that an unknown one probably stands for.
    """

    path: tuple[str, ...]
    what: str
    mend: str
    meant: tuple[str, ...] | None = None


def validation_problems(error: ValidationError, model: type[BaseModel]) -> list[Problem]:
    """Return what pydantic found, as problems; ``model`` is the model of the whole input."""
    problems = [_problem(details, model) for details in error.errors(include_url=False)]
    # A misspelt required key is reported once, as unknown, and not as missing too.
    meant = {problem.meant for problem in problems}
    return [problem for problem in problems if problem.meant or problem.path not in meant]


def render(problem: Problem, where: str) -> str:
    """Return the message of a problem in settings that have no file."""
    place = ".".join((where, *problem.path[:-1])) if problem.path else where
    return f"{place}: {problem.what}\n\n{problem.mend}"


def render_in_file(problems: Iterable[Problem], file: str, text: str) -> str:
    """Return the message of problems in a file, by line, with carets under each key."""
    places = find_places(text)
    found = [(nearest_place(places, problem.path), problem) for problem in problems]
    found.sort(key=lambda pair: pair[0].start if pair[0] else 0)
    return "\n\n".join(_render_at(place, problem, file, text) for place, problem in found)


def _render_at(place: Place | None, problem: Problem, file: str, text: str) -> str:
    section = ".".join(problem.path[:-1])
    what = f"{section}: {problem.what}" if section else problem.what
    if place is None:
        return f"{file}: {what}\n\n{problem.mend}"
    number, line, column = _line_of(text, place)
    margin = f"  {number} | "
    gutter = " " * (len(margin) - 2) + "| "
    carets = "^" * (place.end - place.start)
    return (
        f"{file}, line {number}: {what}\n\n{margin}{line}\n{gutter}{' ' * column}{carets}\n\n"
        f"{problem.mend}"
    )


def nearest_of(word: str, known: Iterable[str], what: str) -> str:
    """Return a sentence that suggests the known word most similar to ``word``, or lists all."""
    words = list(known)
    all_of_them = f"The {what} are {', '.join(words)}." if words else f"There are no {what}."
    return suggestion(word, words, otherwise=all_of_them)


def _line_of(text: str, place: Place) -> tuple[int, str, int]:
    start = text.rfind("\n", 0, place.start) + 1
    end = text.find("\n", place.start)
    line = text[start : len(text) if end < 0 else end]
    return text.count("\n", 0, place.start) + 1, line.rstrip("\r"), place.start - start


def _problem(details: ErrorDetails, model: type[BaseModel]) -> Problem:
    path = tuple(str(word) for word in details["loc"])
    key = path[-1]
    if details["type"] == "extra_forbidden":
        section = _model_at(model, path[:-1])
        assert section is not None, "only a model forbids keys"
        keys = [field.alias or name for name, field in section.model_fields.items()]
        near = nearest(key, keys)
        return Problem(
            path=path,
            what=f"there is no key {key}",
            mend=nearest_of(key, keys, "keys"),
            meant=(*path[:-1], near) if near else None,
        )
    mend = _description(model, path)
    if details["type"] == "missing":
        return Problem(path=path, what=f"{key} is missing", mend=mend)
    return Problem(
        path=path, what=f"{key} = {_toml(details['input'])}: {_rule(details)}", mend=mend
    )


# The rules by pydantic's name of their breach, with its facts; others are in pydantic's words.
_RULES: dict[str, str] = {
    "value_error": "{error}",
    "enum": "it must be {expected}",
    "greater_than": "it must be greater than {gt}",
    "string_type": "it must be text in quotes",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "dict_type": "it must be a table of keys",
    "model_type": "it must be a table of keys",
}


def _rule(details: ErrorDetails) -> str:
    """Return the rule that a value breaks, without a full stop."""
    template = _RULES.get(details["type"])
    if template is not None:
        return template.format(**details.get("ctx", {}))
    return details["msg"][:1].lower() + details["msg"][1:]


def _toml(value: object) -> str:
    """Return a value roughly as TOML writes it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case Mapping():
            return "{..}"
        case _:
            return str(value)


def _description(model: type[BaseModel], path: tuple[str, ...]) -> str:
    """Return the description of the key at a path, or of the key around it."""
    for length in range(len(path), 0, -1):
        section = _model_at(model, path[: length - 1])
        if section is not None:
            for name, field in section.model_fields.items():
                if path[length - 1] == (field.alias or name):
                    return " ".join((field.description or "").split())
    return ""


def _model_at(model: type[BaseModel], path: tuple[str, ...]) -> type[BaseModel] | None:
    """Return the model of the section at a path: ``sources`` is a table of models by name."""
    annotation: Any = model
    for word in path:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
            if word not in fields:
                return None
            annotation = fields[word].annotation
        elif len(get_args(annotation)) == 2:  # dict[str, Model]
            annotation = get_args(annotation)[1]
        else:
            return None
    return (
        annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    )
