"""The public names of the package: plain functions and classes, whatever was imported before."""

from __future__ import annotations

import inspect
import json
import pkgutil
import subprocess
import sys

import tidegate

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(tidegate.__path__, "tidegate.")
    if not module.name.endswith("__main__")
)


def test_sql_is_a_function_whose_signature_and_help_say_what_it_takes():
    assert inspect.isfunction(tidegate.sql)
    parameters = inspect.signature(tidegate.sql).parameters
    names = ["text", "settings", "streams", "tables", "spark", "origin", "named"]
    assert list(parameters) == names
    assert "Return the query of a statement." in inspect.getdoc(tidegate.sql)


def test_every_public_name_is_listed_before_it_is_loaded():
    listed = "import tidegate, json; print(json.dumps(dir(tidegate)))"
    found = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    assert set(tidegate.__all__) <= set(json.loads(found.stdout))


def test_no_module_has_the_name_of_something_public():
    """Python would put the module in its place once the module is imported."""
    assert not {name.split(".")[1] for name in MODULES} & set(tidegate.__all__)


def test_sql_is_the_same_function_after_every_module_was_imported():
    script = "\n".join(
        [
            *(f"import {name}" for name in reversed(MODULES)),
            "import inspect",
            "from tidegate.api.query import sql",
            "assert tidegate.sql is sql and inspect.isfunction(sql)",
        ]
    )
    subprocess.run([sys.executable, "-c", script], check=True)
