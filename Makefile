# Needs make and Python 3.11 or newer; everything else goes into .venv, .venv-bench and .venv-3.X.
# Another interpreter: make setup PYTHON=python3.13.   Arguments: make test ARGS="-k join", make bench ARGS=--quick.

PYTHON ?= python3
ARGS ?=
# Many tests wait for other processes, so there may be more of them than cores.
PROCESSES ?= 3
# A process that has nothing left takes over from the others: some tests take seconds, and most milliseconds.
XDIST := -n $(PROCESSES) --dist worksteal

# The tests start many processes, and one that finds no bytecode compiles all of Weft: a second each.
unexport PYTHONDONTWRITEBYTECODE

PIP := -m pip --disable-pip-version-check --quiet
BIN := .venv/bin

# An install is repeated when pyproject.toml has changed, and only then.
CORE := .venv/core.stamp
DEV := .venv/dev.stamp
BENCH := .venv-bench/bench.stamp

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-fleet test test-browser test-cluster versions wheels sbom stress thorough faults simulate check format pictures docs bench clean

help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV)  ## Create .venv with the project and the development tools
	@echo "ready: $(BIN)"

demo: $(CORE)  ## Run the demonstration; needs no development tools
	@$(BIN)/python examples/demo.py
	@rm -rf build/demo
	@$(BIN)/python -m weft demo --folder build/demo

demo-fleet: $(DEV)  ## Start a PostgreSQL and three workers, kill one of them, and show the work move on
	@$(BIN)/python examples/fleet.py

test: $(DEV)  ## Run the tests and the examples in docstrings
	@$(BIN)/pytest -q -ra $(XDIST) $(ARGS)

test-browser: $(DEV)  ## Run the tests of the dashboard in Chromium; says what is missing
	@$(BIN)/python $(PIP) install --group browser
	@$(BIN)/pytest -q -ra -n $(PROCESSES) tests/browser $(ARGS)

test-cluster: $(DEV)  ## Run the tests of the executors on real Ray and Dask clusters, on this machine
	@$(BIN)/python $(PIP) install --group cluster
	@$(BIN)/pytest -q -ra tests/cluster $(ARGS)

versions:  ## Run the tests on every version of Python that is found here; says which are not
	$(check_python)
	@$(PYTHON) tests/versions $(ARGS)

wheels: $(DEV)  ## Build the wheel, install it with each extra into an empty environment, and try it
	@$(BIN)/python $(PIP) install --group wheels
	@$(BIN)/python tests/packaging $(ARGS)

sbom: $(DEV)  ## List what each extra installs, as CycloneDX, in build/sbom
	@$(BIN)/python $(PIP) install --group sbom
	@$(BIN)/python tests/packaging --sbom $(ARGS)

stress: $(DEV)  ## Run the tests several times on a busy machine; prints every test that failed once
	@$(BIN)/python tests/stress $(ARGS)

thorough: $(DEV)  ## Run the longest tests in their long form: every crash, more seeds, more examples
	@WEFT_THOROUGH=1 $(BIN)/pytest -q -ra -n auto --maxprocesses 4 tests/crash tests/simulation tests/properties tests/orderly tests/stores/sqlite/test_damage.py $(ARGS)

faults: $(DEV)  ## Kill, stop and cut off workers of a fleet, 1,000 runs for each fault (RUNS=), and print figures
	@WEFT_FAULT_RUNS=$(or $(RUNS),1000) $(BIN)/pytest -q -ra -s tests/fleet/test_faults.py tests/fleet/test_hardships.py $(ARGS)

simulate: $(DEV)  ## Simulate runners that crash, for a minute; a failure prints its seed
	@$(BIN)/python tests/simulation $(ARGS)

check: $(DEV)  ## Lint, formatting, types and words: all run, one failure fails
	@failed=; \
	for tool in 'ruff check .' 'ruff format --check .' mypy pyright 'python tests/words.py'; do \
		echo "$$tool"; $(BIN)/$$tool || failed="$$failed [$$tool]"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

format: $(DEV)  ## Format the code and fix what the linter can fix
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

pictures: $(CORE)  ## Draw the pictures of the documentation again, and write its tables
	@$(BIN)/python docs/pictures.py

docs: $(DEV)  ## Build the documentation as a site, in build/site; it opens from the disk
	@$(BIN)/python $(PIP) install --group docs
	@$(BIN)/python docs/build_site.py

bench: $(BENCH)  ## Measure Weft beside its alternatives
	@.venv-bench/bin/python benchmarks/run.py $(ARGS)

clean:  ## Remove the environments, builds and caches
	rm -rf .venv .venv-bench .venv-3.* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define check_python
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Weft needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": try make PYTHON=python3.12")'
endef

define create_venv
$(check_python)
@echo "installing into $(@D)"
@$(PYTHON) -m venv $(@D)
endef

$(CORE): pyproject.toml
	$(create_venv)
	@$(BIN)/python $(PIP) install --editable .
	@touch $@

# Dependency groups came with pip 25.1, and a new environment may hold an older one.
$(DEV): $(CORE)
	@$(BIN)/python $(PIP) install --upgrade 'pip>=25.1'
	@$(BIN)/python $(PIP) install --group dev
	@touch $@

$(BENCH): pyproject.toml
	$(create_venv)
	@$(@D)/bin/python $(PIP) install --upgrade 'pip>=25.1'
	@$(@D)/bin/python $(PIP) install --editable . --group bench
	@touch $@
