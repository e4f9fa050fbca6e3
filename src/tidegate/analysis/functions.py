"""The functions that a user registered in a Spark session: scalars and aggregates.

They are Spark's to compute. An aggregate of theirs has no merge, so it is computed over whole rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException

from tidegate.plan.statement import UserFunction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_AGGREGATES = frozenset(
    f"{_EXPRESSIONS}.aggregate.{name}" for name in ("AggregateExpression", "AggregateFunction")
)
_OF_THE_SESSION = "system.session."
_IN_PYTHON = f"{_EXPRESSIONS}.PythonUDAF"


def user_functions(spark: SparkSession) -> tuple[UserFunction, ...]:
    """Return the functions of a session that are not Spark's own, by name.

    One with the name of a built-in function is left out, because Spark calls its own.
    """
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    # What SHOW USER FUNCTIONS lists, in a seventh of its time.
    known = session.sessionState().functionRegistry().listFunction()
    catalyst = jvm.org.apache.spark.sql.catalyst
    builtin = catalyst.analysis.FunctionRegistry.builtin()
    own = known.diff(builtin.listFunction())
    names = {
        own.apply(place).unquotedString().removeprefix(_OF_THE_SESSION)
        for place in range(own.size())
    }
    # Functions of a catalog have longer qualified names, which statements cannot call.
    return tuple(
        _described(spark, name)
        for name in sorted(names)
        if "." not in name and not builtin.functionExists(catalyst.FunctionIdentifier(name))
    )


def _described(spark: SparkSession, name: str) -> UserFunction:
    kinds = _kinds(spark, name)
    return UserFunction(
        name=name.lower(),
        aggregate=not _AGGREGATES.isdisjoint(kinds),
        python=_IN_PYTHON in kinds,
    )


def _kinds(spark: SparkSession, name: str) -> list[str]:
    """The Java classes of a call of a function, most specific first; none if Spark cannot say."""
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    no_arguments = jvm.PythonUtils.toSeq(jvm.java.util.ArrayList())
    try:
        found = session.sessionState().catalog().resolveBuiltinOrTempFunction(name, no_arguments)
    except (Py4JError, AnalysisException):
        # It needs arguments, so it is a scalar: aggregators and Python functions accept none.
        return []
    kinds = []
    kind = found.get().getClass() if found.isDefined() else None
    while kind is not None:
        kinds.append(kind.getName())
        kind = kind.getSuperclass()
    return kinds
