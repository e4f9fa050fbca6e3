"""Cases: input batches beside the answers they must get, in text, and what runs them."""

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
