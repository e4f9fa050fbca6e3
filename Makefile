# Needs make and Python 3.11 or later; everything else is installed into .venv on the first call.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
SYSTEMS := $(VENV)/.systems
DOCS := $(VENV)/.docs
# Two processes with a Spark each, since a test seldom keeps two cores busy; a file stays together.
WORKERS := --numprocesses 2 --dist loadfile
SECONDS := 600
SEED := 1
PYTHONS := python3.13 python3.12 python3.11 python3 python

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-systems example-kafka torture long-run lint check mutate bench flink-jars format docs docs-serve clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## Make .venv with Tidegate, its tools and, where there is no Java 17+, a Java runtime

demo: $(READY) ## Stream a month of real flights through one statement
	@$(PYTHON) -m tidegate demo

test: $(READY) ## Run the tests; each case on Spark in one of four ways
	@$(PYTHON) -m pytest $(WORKERS)

test-all: $(READY) ## Run the tests; each case on Spark in all four ways, laws with more seeds
	@TIDEGATE_LAW_SEEDS=40 $(PYTHON) -m pytest $(WORKERS) -m ''

test-systems: $(SYSTEMS) ## Run the tests against real systems, which need Maven for their Java parts
	@$(PYTHON) -m pytest tests/systems

example-kafka: $(SYSTEMS) ## Start Kafka and PostgreSQL, run flights from a topic into a table, show it, stop all
	@PYTHONPATH=tests $(PYTHON) examples/kafka_to_postgresql/run.py

torture: $(READY) ## Kill, starve and roll back queries of every kind for SECONDS=600, from SEED=1 on
	@PYTHONPATH=tests $(PYTHON) -m tests.torture --seconds $(SECONDS) --seed $(SEED)

long-run: $(READY) ## Run 2,000 tiny batches and list what has grown
	@PYTHONPATH=tests $(PYTHON) -m tests.torture.long_run

lint: $(READY) ## Check format, lint, types and import rules; no tests
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports

check: lint ## Run all that must hold: lint, then the tests with coverage
	$(PYTHON) -m pytest $(WORKERS) --cov=tidegate --cov-fail-under=85

mutate: $(READY) ## Break the engine on purpose and list which tests notice; MUTANTS=.. for some
	@$(PYTHON) scripts/mutate.py $(MUTANTS)

bench: $(READY) ## Measure against Spark's own operators; BENCH=name for one of them
	@$(PYTHON) -m bench $(BENCH)

flink-jars: ## Fetch the jars of Flink with Maven, for make bench BENCH=flink
	@mvn --quiet --batch-mode --file bench/flink/pom.xml dependency:copy-dependencies \
	  -DoutputDirectory=$(CURDIR)/bench/.cache/flink

format: $(READY) ## Format the code and mend what the linter can mend
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

docs: $(DOCS) ## Build the documentation as a site into build/docs; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
	@echo 'build/docs/index.html is the first page (make docs-serve shows the site with its search)'

docs-serve: $(DOCS) ## Show the documentation at http://127.0.0.1:8000, and build it anew when it changes
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs serve

clean: ## Remove what building, testing and running leave behind (not .venv)
	rm -rf build dist htmlcov .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db derby.log
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# One installer or the other: uv when it is there, else venv and pip (25.1 brought --group).
$(READY): pyproject.toml constraints.txt
	@set -e; \
	if command -v uv >/dev/null; then \
	  test -x $(PYTHON) || uv venv --quiet --python '>=3.11' $(VENV); \
	  install="uv pip install --quiet --python $(PYTHON)"; \
	else \
	  if ! test -x $(PYTHON); then \
	    for candidate in $(PYTHONS); do \
	      if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        found=$$candidate; break; \
	      fi; \
	    done; \
	    test -n "$$found" || { echo 'Tidegate needs Python 3.11 or later on the PATH (or uv).' >&2; exit 1; }; \
	    $$found -m venv $(VENV); \
	  fi; \
	  $(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'; \
	  install="$(PYTHON) -m pip install --quiet --disable-pip-version-check"; \
	fi; \
	echo 'Installing into $(VENV) (once; Spark is about 450 MB)'; \
	$$install --editable . --group dev --constraint constraints.txt; \
	$(PYTHON) -m tidegate.spark.java 2>/dev/null || $$install --editable '.[java]' --constraint constraints.txt; \
	touch $(READY)

# What builds the site of the documentation.
$(DOCS): $(READY)
	@set -e; \
	if command -v uv >/dev/null; then \
	  uv pip install --quiet --python $(PYTHON) --group docs --constraint constraints.txt; \
	else \
	  $(PYTHON) -m pip install --quiet --disable-pip-version-check --group docs --constraint constraints.txt; \
	fi; \
	touch $(DOCS)

# The clients of real systems, which only their tests need.
$(SYSTEMS): $(READY)
	@set -e; \
	if command -v uv >/dev/null; then \
	  uv pip install --quiet --python $(PYTHON) --group systems --constraint constraints.txt; \
	else \
	  $(PYTHON) -m pip install --quiet --disable-pip-version-check --group systems --constraint constraints.txt; \
	fi; \
	touch $(SYSTEMS)
