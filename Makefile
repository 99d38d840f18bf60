# The whole life of a checkout. `make run` and `make test` need nothing but Python 3.11+, make and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RUN_INSTALLED := $(VENV)/.installed-run

.DEFAULT_GOAL := default
.PHONY: default init redis run fix check test quick bench clean

default: check test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hinged needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

# The server, its demonstration and nothing else: what a first look needs.
$(RUN_INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo]'
	@touch $@

$(INSTALLED): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,dev]'
	@touch $@ $(RUN_INSTALLED)

init: $(INSTALLED)

# A redis-server for the tests to start. Where apt may install one it does, without starting a service; elsewhere the
# tests that need it are skipped and say so, unless HINGED_CI is set.
redis:
	@if ! command -v redis-server >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1; \
		apt-get -qq update && apt-get -qq install --yes --no-install-recommends redis-server >/dev/null; \
	fi; \
	command -v redis-server >/dev/null || echo 'no redis-server: the tests of the store on Redis will not run'

# A server on ./data that learns a real stream before your eyes, then stays.
run: $(RUN_INSTALLED)
	@$(BIN)/hinged demo

fix: init
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: init
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Each state of solvers/ has compiled code of its own below the user's cache folder (solvers/core/compiled.py), so what is
# there was compiled from just these sources.
test: init redis
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# Without servers, fault programs and Redis: under two minutes, once the solvers are compiled.
quick: init
	$(BIN)/python -m pytest -m "not server and not faults and not compiles" $(PYTEST_ARGS)

# Solvers and server beside their peers, as in benchmarks/README.md; DATA is a folder of data sets. BENCH_ARGS=--full adds
# MNIST.
bench: init
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/speed/run.py --data $(DATA) $(BENCH_ARGS)
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/server/run.py --data $(DATA) $(SERVER_BENCH_ARGS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
