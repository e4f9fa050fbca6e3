"""The SQL front end: the only place that knows sqlglot.

``tidegate.sql`` is this package and ``tidegate.sql(..)`` makes a query: importing any module from
here puts the package in the function's place, so the package can be called as the function.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever ``query.sql`` takes
        return import_module("tidegate.query").sql(*args, **named)


sys.modules[__name__].__class__ = _CallablePackage
