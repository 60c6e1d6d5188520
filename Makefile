# Two commands do it all on a machine with Python, pip and make: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help setup run test coverage check bench peers mutants docs docs-serve release-check container-check clean
help:           ## what each command does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(VENV)/.dev        ## make .venv with the pinned versions (nothing repeated when up to date)

# One stamp an extra, so that each command installs what it needs and no more.
$(VENV)/.%: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt -e '.[$*]'
	@touch $@

run: $(VENV)/.study        ## the main job
	$(BIN)/banister run

test: setup     ## all tests, fast ones first, then the statistical ones; doctests included
	$(BIN)/python -m pytest -n 2 -m "not statistical"
	$(BIN)/python -m pytest -n 2 -m statistical tests

coverage: setup ## which lines the fast tests run; compiled loops cannot be seen and are left out
	$(BIN)/python -m pytest -n 2 -m "not statistical" --cov --cov-report=term-missing:skip-covered

check: setup    ## lint, types, import contract, workflow files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict .github .pre-commit-config.yaml mkdocs.yml CITATION.cff
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

bench: $(VENV)/.bench  ## this machine, this library and its peers, side by side
	$(BIN)/python benchmarks/estimators.py

# obp asks for older numpy and scikit-learn than everybody else here: a virtual environment of its own.
$(VENV)/obp/.made: $(VENV)/.bench Makefile
	$(PYTHON) -m venv $(VENV)/obp
	$(VENV)/obp/bin/python -m pip --disable-pip-version-check install -q 'obp==0.3.3' 'numpy<2' 'scikit-learn<1.3'
	@touch $@

peers: $(VENV)/obp/.made  ## the same decisions by other libraries, side by side, into docs/benchmarks.md
	$(BIN)/python benchmarks/beside_others.py --page docs/benchmarks.md

mutants: setup  ## deliberate faults in safety, learner, online and solver, chosen and drawn by chance: each must make a test fail
	@status=0; for list in mutants mutants_online mutants_solver mutants_sampled; do \
	  $(BIN)/python benchmarks/$$list.py --known $(VENV)/$$list.json || status=1; done; exit $$status

docs: $(VENV)/.docs  ## the documentation as a site in site/; a broken link or an undocumented name fails
	$(BIN)/python -m banister.policies.table docs/policies.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/.docs  ## the same, on a local address, rebuilt when a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

release-check:  ## build sdist and wheel, install each in an empty environment elsewhere, try them there
	$(PYTHON) scripts/release_check.py

container-check: ## the Dockerfile's steps without a Docker engine, in a fresh folder as an unprivileged user
	$(PYTHON) scripts/container_check.py --python $(PYTHON)

clean:          ## remove what the commands above made
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
