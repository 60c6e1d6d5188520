# Two commands do it all on a machine with Python, pip and make: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help setup run test check bench mutants docs clean
help:           ## what each command does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.dev        ## make .venv with the pinned versions (nothing repeated when up to date)

$(VENV)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install -q -c constraints.txt -e '.[bench]'
	@touch $@

run: setup      ## the main job
	$(BIN)/banister run

test: setup     ## all tests, fast ones first, then the statistical ones; doctests included
	$(BIN)/python -m pytest -n 2 -m "not statistical"
	$(BIN)/python -m pytest -n 2 -m statistical tests

check: setup    ## lint, types, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench  ## this machine, this library and its peers, side by side
	$(BIN)/python benchmarks/estimators.py

mutants: setup  ## deliberate faults in safety and learner: each must make a test fail
	$(BIN)/python benchmarks/mutants.py

docs: setup     ## write the generated parts of the documentation
	$(BIN)/python -m banister.policies.table docs/policies.md

clean:          ## remove what the commands above made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
