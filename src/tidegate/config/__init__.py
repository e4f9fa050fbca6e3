"""Configuration: the settings of a transform, and the pipeline file."""

from tidegate.config.load import explain_at, load_config, parse_config
from tidegate.config.places import check_places, missing_input
from tidegate.config.settings import read_settings

__all__ = [
    "check_places",
    "explain_at",
    "load_config",
    "missing_input",
    "parse_config",
    "read_settings",
]
