"""Cases: tests as text, with batches of rows and the results they must give; and their runner."""

from tidegate.cases.model import (
    COUNTERS,
    Case,
    CaseEngine,
    CaseError,
    EngineFactory,
    Observed,
    SideRow,
)
from tidegate.cases.parse import parse_cases, read_cases
from tidegate.cases.run import CUTS, CaseResult, run_case, run_files

__all__ = [
    "COUNTERS",
    "CUTS",
    "Case",
    "CaseEngine",
    "CaseError",
    "CaseResult",
    "EngineFactory",
    "Observed",
    "SideRow",
    "parse_cases",
    "read_cases",
    "run_case",
    "run_files",
]
