# Every target sets up .venv by itself, with pip alone, and reuses it.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help run test quick check fix conformance bench requirements cover clean

help: ## Show this table
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mcpost needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: $(STAMP) ## Start the example server, call it over HTTP, show the answers
	@$(BIN)/python -m tools.demo

test: $(STAMP) ## Run the tests
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(ARGS)

quick: $(STAMP) ## Run the unit and property tests
	@$(BIN)/python -m pytest -q tests/unit tests/property $(ARGS)

check: $(STAMP) ## Check format, lint, types, imports, budgets and generated pages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports
	@$(BIN)/python -m tools.budget
	@$(BIN)/python -m tools.pages --check

fix: $(STAMP) ## Format, and mend what the tools can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/python -m tools.pages

conformance: $(STAMP) ## Run the official conformance suite
	@$(BIN)/python -m tools.conformance

bench: $(STAMP) ## Measure beside the peers
	@$(BIN)/python -m bench $(ARGS)

requirements: $(STAMP) ## Print the requirement ids that have no test
	@$(BIN)/python -m tools.requirements $(ID)

cover: $(STAMP) ## Branch coverage of the pure rooms
	@$(BIN)/python -m coverage run --branch --source=src/mcpost/wire,src/mcpost/types -m pytest -q tests/unit/wire tests/property/wire
	@$(BIN)/python -m coverage report -m

clean: ## Remove what the targets made
	@rm -rf .venv .conformance .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
