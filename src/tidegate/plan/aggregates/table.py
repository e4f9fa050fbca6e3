"""The table of accumulators: each aggregate as update, merge and evaluate, in Spark SQL.

An entry has all that is known of an aggregate: its plain call, and the calls with DISTINCT, with
IGNORE NULLS and with an argument of a known type as entries of their own.
``scripts/write_aggregates_doc.py`` makes ``docs/aggregates.md`` of the table.

An accumulator has one or more *parts*; a part is a column of the state. ``update`` aggregates rows
into a part, ``merge`` aggregates parts into a part of the same type, ``evaluate`` turns merged
parts into the result. The law that holds for every entry: evaluating the merge of the updates of
any split of the rows equals the aggregate over all rows.

Placeholders of ``update``:

    {x} {y} {z}   the arguments               {time}    the row's time, BIGINT
    {args}        all of them                 {order}   a STRUCT of t, b, i that orders rows by
    {row}         one value of all of them,             time, then by arrival
                  NULL if one is NULL         {filter}  the FILTER clause or nothing; it follows
    {known}       {filter}, and without                 each aggregate function
                  rows where x is NULL

Of ``merge``: ``{p}`` is the part's own column, ``{NAME}`` the column of another part. Of
``evaluate``: ``{NAME}`` is a merged part, ``{y}`` and ``{z}`` are constants, ``{wide}`` is the type
that Spark gives the call, if that is a DECIMAL the widest one of its scale; ``{whole}`` and
``{part}`` are DECIMALs for what stands before and after its point, ``{mean}`` is the mean whose
whole part is ``q`` and whose rest is ``r``.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.plan.aggregates import moments
from tidegate.plan.aggregates.forms import (
    APPROX_COUNT_DISTINCT,
    BY_KEY,
    COUNT,
    FIRST,
    FIRST_KNOWN,
    GREATEST,
    GUARDED_SUM,
    LAST,
    LAST_KNOWN,
    LEAST,
    LIST,
    LOWER,
    MODE,
    OF_HALVES,
    PERCENTILE_APPROX,
    PLAIN_SUM,
    SET,
    SET_SUM,
    TOP_K,
    UPPER,
    Accumulator,
    Part,
    avg_of,
    guarded,
    indifferent,
    kll,
    let,
    merges_itself,
    one_part,
    percentile,
    placed,
    quotient,
    sketch,
    sum_of,
    wide_quotient,
)
from tidegate.plan.aggregates.results import OF_AVG, OF_BIGINT, OF_BOOLEAN, OF_DOUBLE, OF_SUM
from tidegate.plan.types import BIGINT, BOOLEAN, DOUBLE, SqlType


def _of(struct: Part, evaluate: str, state: str) -> Accumulator:
    return Accumulator(parts=(struct,), evaluate=evaluate, state=state, result=OF_DOUBLE)


_SPREAD = Part(name="m", update=moments.SPREAD_UPDATE, merge=moments.SPREAD_MERGE)
_SHAPE = Part(name="m", update=moments.SHAPE_UPDATE, merge=moments.SHAPE_MERGE)
_PAIRS = Part(name="c", update=moments.PAIRS_UPDATE, merge=moments.PAIRS_MERGE)
_SPREADS = {name: _of(_SPREAD, text, "3 DOUBLEs") for name, text in moments.SPREADS.items()}
_SHAPES = {name: _of(_SHAPE, text, "5 DOUBLEs") for name, text in moments.SHAPES.items()}
_OF_PAIRS = {
    name: replace(
        _of(_PAIRS, text, "6 DOUBLEs"),
        arity=(2,),
        nulls="skips rows where x or y is NULL",
        result=OF_BIGINT if name == "regr_count" else OF_DOUBLE,
    )
    for name, text in moments.OF_PAIRS.items()
}

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
# A sum of these stays in range for at least 2 ** 32 rows.
_IN_RANGE = _INTEGERS | _FLOATS | {"DECIMAL"}
_BIGINTS = frozenset({"BIGINT"})

_SUM = replace(
    sum_of(GUARDED_SUM, COUNT),
    distinct=replace(SET, evaluate=f"{SET_SUM}.s", result=OF_SUM),
    typed=(
        (_IN_RANGE, sum_of(PLAIN_SUM)),
        (_BIGINTS, replace(sum_of(UPPER, LOWER), evaluate=OF_HALVES)),
    ),
)
_AVG = replace(
    # The sum for an average of BIGINTs may exceed BIGINT: x / 1 makes it a DOUBLE, as in Spark; a
    # DECIMAL stays exact.
    avg_of(guarded("try_sum(coalesce({x}, {x} / 1)){filter}")),
    distinct=replace(
        SET,
        evaluate=f"{SET_SUM}.s / nullif({SET_SUM}.n, 0)",
        decimal=let(SET_SUM, "d", wide_quotient("d.s", "d.n")),
        result=OF_AVG,
    ),
    typed=(
        (_IN_RANGE, avg_of(PLAIN_SUM, quotient)),
        (frozenset({"WIDE DECIMAL"}), avg_of(GUARDED_SUM)),
        (
            _BIGINTS,
            avg_of(Part(name="s", update="sum(CAST({x} AS DOUBLE)){filter}", merge="sum({p})")),
        ),
    ),
)
_COUNT = Accumulator(
    parts=(Part(name="n", update="count({args}){filter}", merge="sum({p})"),),
    evaluate="{n}",
    arity=(),
    nulls="count(*) counts every row, count(x, ..) those where no argument is NULL",
    result=OF_BIGINT,
    distinct=replace(
        SET,
        evaluate="CAST(size({v}) AS BIGINT)",
        arity=(),
        nulls="counts the distinct rows where no argument is NULL",
        result=OF_BIGINT,
    ),
)

# These cast text to a number.
_OF_NUMBERS: dict[str, Accumulator] = {
    "sum": _SUM,
    "avg": _AVG,
    **_SPREADS,
    **_SHAPES,
    **_OF_PAIRS,
    # Spark stops the query if a correlation divides by zero.
    "corr": replace(_OF_PAIRS["corr"], over_rows=None),
    "median": percentile("0.5D"),
    "percentile": replace(percentile("{y}"), arity=(2,), constants=("0.5",)),
    "percentile_approx": replace(
        PERCENTILE_APPROX,
        typed=((_INTEGERS | _BIGINTS, kll("bigint")), (_FLOATS, kll("double"))),
    ),
}
# These cast text to a condition.
_OF_CONDITIONS: dict[str, Accumulator] = {
    "count_if": replace(
        one_part("count_if({x}){filter}", "sum({p})"),
        nulls="NULL counts as false",
        result=OF_BIGINT,
    ),
    "bool_and": indifferent(replace(merges_itself("bool_and"), result=OF_BOOLEAN)),
    "bool_or": indifferent(replace(merges_itself("bool_or"), result=OF_BOOLEAN)),
}

ACCUMULATORS: dict[str, Accumulator] = {
    "count": _COUNT,
    **{name: replace(entry, casts=DOUBLE) for name, entry in _OF_NUMBERS.items()},
    **{name: replace(entry, casts=BOOLEAN) for name, entry in _OF_CONDITIONS.items()},
    "min": indifferent(merges_itself("min")),
    "max": indifferent(merges_itself("max")),
    "first": replace(FIRST, ignore_nulls=FIRST_KNOWN),
    "last": replace(LAST, ignore_nulls=LAST_KNOWN),
    # The first one, so that a replay and every cut into batches give the same value.
    "any_value": replace(FIRST, ignore_nulls=FIRST_KNOWN),
    "min_by": replace(placed("min_by", LEAST), arity=(2,), nulls=BY_KEY),
    "max_by": replace(placed("max_by", GREATEST), arity=(2,), nulls=BY_KEY),
    "bit_and": indifferent(merges_itself("bit_and")),
    "bit_or": indifferent(merges_itself("bit_or")),
    "bit_xor": merges_itself("bit_xor"),
    "collect_list": replace(LIST, distinct=SET),
    "collect_set": indifferent(SET),
    "mode": MODE,
    "approx_count_distinct": APPROX_COUNT_DISTINCT,
    "approx_top_k": TOP_K,
    "hll_sketch_agg": sketch("hll_sketch_agg", "hll_union_agg({p}, false)", "12"),
    "theta_sketch_agg": sketch("theta_sketch_agg", "theta_union_agg({p}, {y})", "12"),
    "theta_union_agg": sketch("theta_union_agg", "theta_union_agg({p}, {y})", "12"),
}

# The same of aggregates without an accumulator.
OTHER_CASTS: dict[str, SqlType] = {
    "histogram_numeric": DOUBLE,
    "product": DOUBLE,
    "bitmap_construct_agg": BIGINT,
}

# Calls over stored rows for aggregates without a merge, if Spark's own would ignore the order.
ONLY_OVER_ROWS: dict[str, str] = {
    name: f"{name}({{args}}) WITHIN GROUP (ORDER BY {{order}}){{filter}}"
    for name in ("listagg", "string_agg")
}

# Other names of the same aggregates: Spark's own synonyms, and names of StreamDialect.
AGGREGATE_ALIASES: dict[str, str] = {
    "mean": "avg",
    "try_avg": "avg",
    "try_sum": "sum",
    "first_value": "first",
    "last_value": "last",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "variance": "var_samp",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "array_agg": "collect_list",
    "approx_percentile": "percentile_approx",
    "last_row": "last",
    "ndv": "approx_count_distinct",
    "deduplicate": "collect_set",
    "stddevs": "stddev_samp",
    "vars": "var_samp",
}
