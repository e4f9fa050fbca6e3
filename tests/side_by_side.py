"""Table tests on Spark run side by side, in threads: one case is planned while another one runs.

A test of a table calls ``results[key]``, with a fixture like this one beside it:

    @pytest.fixture(scope="module")
    def results(request, spark):
        with side_by_side(request, spark, "key", answer) as results:
            yield results

where ``answer(key, session)`` is called for every selected test as soon as a thread is free, in the
order of the tests. Each thread has a session of its own, which is dear to make. A call may not
change anything else that the calls of other tests see.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet
    from pyspark.sql import SparkSession

THREADS = 3

Key = TypeVar("Key")
Name = TypeVar("Name")
Result = TypeVar("Result")


class Results(Generic[Key, Result]):
    """What the calls return, by key; asking for one waits for it and raises what it raised."""

    def __init__(self, futures: Mapping[Key, Future[Result]]) -> None:
        self._futures = futures

    def __getitem__(self, key: Key) -> Result:
        return self._futures[key].result()


def dealt(names: Iterable[Name], quick: Collection[Name]) -> list[ParameterSet]:
    """Return the parameters of a table; those that are not ``quick`` run with ``make test-all``."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.whole) for name in names]


def selected(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Return the values of a parameter that the module's selected tests have, each once."""
    callspecs = (
        item.callspec
        for item in request.session.items
        if getattr(item, "module", None) is request.module and hasattr(item, "callspec")
    )
    return list(
        dict.fromkeys(each.params[parameter] for each in callspecs if parameter in each.params)
    )


@contextmanager
def side_by_side(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    parameter: str,
    call: Callable[[Key, SparkSession], Result],
) -> Iterator[Results[Key, Result]]:
    """Call a function with each value of a parameter of the module's selected tests, in threads."""
    of_thread = threading.local()

    def start() -> None:
        of_thread.session = spark.newSession()

    pool = ThreadPoolExecutor(THREADS, initializer=start)
    try:
        yield Results(
            {
                key: pool.submit(lambda key: call(key, of_thread.session), key)
                for key in selected(request, parameter)
            }
        )
    finally:
        # After a failure with -x nobody asks for the rest.
        pool.shutdown(cancel_futures=True)
