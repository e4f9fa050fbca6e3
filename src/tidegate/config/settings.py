"""The settings of a transform: from the words a user writes to ``Settings``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from pydantic import ValidationError

from tidegate.config.model import SettingsSection
from tidegate.config.problems import Problem, render, validation_problems
from tidegate.errors import ConfigError
from tidegate.plan.settings import Settings


def read_settings(mapping: Mapping[str, object], where: str = "settings") -> Settings:
    """Return the settings that a mapping of TOML values means, e.g. ``{"watermark_lag": "5m"}``.

    Raises:
        ConfigError: a key is unknown or a value is wrong; ``where`` names the place in the message.
    """
    try:
        section = SettingsSection.model_validate(dict(mapping))
        problems = setting_problems(section)
    except ValidationError as error:
        problems = validation_problems(error, SettingsSection)
    if problems:
        raise ConfigError("\n\n".join(render(problem, where) for problem in problems))
    return to_settings(section)


def setting_problems(section: SettingsSection, path: tuple[str, ...] = ()) -> list[Problem]:
    """Return conflicts between settings that are each valid on their own."""
    needs = {"dedup_key": "dedup_horizon", "dedup_horizon": "dedup_key"}
    return [
        Problem(
            path=(*path, key),
            what=f"{key} needs {other}",
            mend=f"Add {other}. {SettingsSection.model_fields[other].description}",
        )
        for key, other in needs.items()
        if getattr(section, key) is not None and getattr(section, other) is None
    ]


def to_settings(section: SettingsSection) -> Settings:
    """Return a checked section as ``Settings``; a duration's field there ends in ``_us``."""
    known = {field.name for field in fields(Settings)}
    return Settings(
        **{
            name if name in known else f"{name}_us": getattr(section, name)
            for name in SettingsSection.model_fields
        }
    )
