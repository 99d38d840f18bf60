# The whole life of a checkout. `make run` and `make test` need nothing but Python 3.11+, make and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RUN_INSTALLED := $(VENV)/.installed-run

.DEFAULT_GOAL := default
.PHONY: default init run fix check test bench clean

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

# numba's cache does not see an edit in another file, so the tests compile afresh.
test: init
	@cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && \
	NUMBA_CACHE_DIR="$$cache" $(BIN)/python -m pytest $(PYTEST_ARGS)

# Figures of benchmarks/README.md; DATA is a folder of data sets.
bench: init
	$(BIN)/python benchmarks/adult.py --data $(DATA)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
