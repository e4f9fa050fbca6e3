from __future__ import annotations

from tidegate.frontend.binding.functions import known_functions
from tidegate.plan.aggregates.planned import ACCUMULATORS, AGGREGATE_ALIASES


def test_the_shipped_list_knows_functions_from_aggregates() -> None:
    functions = known_functions()
    assert {
        "count",
        "max_by",
        "listagg",
        "theta_sketch_agg",
        "approx_top_k",
    } <= functions.aggregates
    assert {"upper", "explode", "timestampadd", "cast", "row_number"} <= functions.names
    assert not {"upper", "aggregate", "row_number", "theta_sketch_estimate"} & functions.aggregates


def test_every_accumulator_and_every_alias_is_an_aggregate() -> None:
    functions = known_functions()
    assert ACCUMULATORS.keys() | AGGREGATE_ALIASES.keys() <= functions.aggregates


def test_an_alias_leads_to_a_function_of_spark() -> None:
    assert set(AGGREGATE_ALIASES.values()) <= known_functions().aggregates
