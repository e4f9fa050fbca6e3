"""Configuration: the settings of a transform, and the pipeline file."""

from tidegate.config.load import explain_at, load_config, parse_config
from tidegate.config.settings import read_settings

__all__ = ["explain_at", "load_config", "parse_config", "read_settings"]
