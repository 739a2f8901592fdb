# The two commands are `make dev` and `make test`. Each sets up all it needs, and is quick the second time.

PYTHON ?= python3
VENV := .venv
UV := $(VENV)/bin/uv
# Not exported: the tests run uv in projects of their own, whose environments are not this one.
SYNC := UV_PROJECT_ENVIRONMENT=$(abspath $(VENV)) $(UV) sync --frozen --quiet --inexact

# Where it is set, as it is in many containers, each of the processes that the tests start compiles all it imports anew.
unexport PYTHONDONTWRITEBYTECODE

# Four workers on two cores: many tests wait for other processes, but a worker takes 15 CPU-seconds for its collection
# and its emulators. Each runs whole files, in the order of tests/conftest.py.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help dev test quick test-engines test-deep mutants replay check lint lint-code format package-check bench screenshots terminal newcomer bench-chunks bench-cold bench-dev message-path docs openapi schema lock figures cost sam-local smoke clean

help: ## Say what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

dev: $(VENV)/.runs ## Serve the agents of aion.yaml on http://127.0.0.1:8000 (PORT=…, AION_CONFIG=…, AUTH=on)
	@exec $(VENV)/bin/aion dev

test: $(VENV)/.tests ## Pass the tests of each behaviour; `lint` and `test-deep` do the rest
	$(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) $(PYTEST)

quick: lint-code ## Run the tests nearest to the changes since main, and lint
	@tests="$$($(VENV)/bin/python -m tests.nearest)"; \
	  if [ -n "$$tests" ]; then $(VENV)/bin/python -m pytest -n 2 --dist loadfile $$tests $(PYTEST); else echo "No test is near."; fi

test-engines: export AION_TEST_ENGINES ?= all
test-engines: $(VENV)/.tests ## Pass the contract suites in full on each engine (AION_TEST_ENGINES=moto,ministack)
	$(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) tests/contract $(PYTEST)

test-deep: export AION_TEST_ENGINES ?= all
test-deep: $(VENV)/.tests ## Pass all tests: ten times the schedules, crashes in pairs, planted bugs, mutants, each engine, lint
	SIMULATION_DEEP=1 $(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) -m 'deep or not deep' $(PYTEST)
	$(VENV)/bin/python -m infra.mutants

mutants: $(VENV)/.tests ## Mutate the decisions: the tests kill nine mutants in ten, and each survivor is explained
	$(VENV)/bin/python -m infra.mutants

replay: $(VENV)/.tests ## Tell everything that happens in one simulated schedule (SEED=…)
	@$(VENV)/bin/python -m tests.simulation $(SEED)

check: lint ## Check all that `lint` does, write the bill of materials, and audit the lock (AUDIT=required)
	$(VENV)/bin/python -m infra.supply_chain

lint: lint-code ## Check style, types, imports and the template's policies
	$(VENV)/bin/python -m infra.policies.check

# `lint` checks the template besides; with `make test-deep`, the tests of tests/template do too.
lint-code: $(VENV)/.tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

lock: $(VENV)/.tests ## Lock the dependencies anew, and with them what projects without a lock are built with
	$(UV) lock --quiet
	$(UV) export --quiet --frozen --no-header --no-annotate --no-hashes --all-extras --no-default-groups \
	  --no-emit-project > aion_core/packaging/tested.txt

format: $(VENV)/.tests ## Put the code in its format
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

package-check: $(VENV)/.tests ## Build the functions' packages and hold them to their budgets of size and of cold start
	@$(VENV)/bin/python -m infra.package_check

bench: $(VENV)/.tests ## Measure the server beside the SDK's server and a bare app (BENCH="--rounds 5 --write")
	@$(VENV)/bin/python -m bench $(BENCH)

bench-chunks: $(VENV)/.tests ## Measure what the adapter adds to each streamed chunk
	$(VENV)/bin/python -m tests.bench.chunks

bench-dev: $(VENV)/.tests ## Measure how long `aion dev` takes to start, and to serve an edit
	$(VENV)/bin/python -m tests.bench.dev_loop

bench-cold: $(VENV)/.tests ## Measure the CPU time of the built ApiFunction until its first streamed word
	@$(VENV)/bin/python -m tests.bench.cold_function

newcomer: $(VENV)/.tests ## Measure a newcomer's first steps, with empty and with warm package caches (NEWCOMER=--check)
	@$(VENV)/bin/python -m tests.bench.newcomer $(NEWCOMER)

screenshots: $(VENV)/.tests ## Take the screenshots of the docs with the browser tests
	SCREENSHOTS=docs/images $(VENV)/bin/python -m pytest -q -m 'deep or not deep' tests/e2e/console

terminal: $(VENV)/.tests ## Record the README's terminal: a real `aion dev` and `aion chat`, with a killed worker
	@$(VENV)/bin/python -m infra.terminal

message-path: $(VENV)/.tests ## List the files that one streamed message passes through (STORE=memory or dynamodb)
	@$(VENV)/bin/python -m tests.bench.message_path --store $(or $(STORE),memory)

docs: $(VENV)/.tests ## Build the documentation site without warnings into .cache/docs/site
	@$(VENV)/bin/python -m infra.docs_site

openapi: $(VENV)/.tests ## Generate docs/openapi.yaml from the operations table, with examples from a real server
	@$(VENV)/bin/python -m infra.openapi_examples
	@$(VENV)/bin/python -m infra.openapi

schema: $(VENV)/.tests ## Generate the JSON Schema of aion.yaml from its models
	@$(VENV)/bin/python -m infra.config_schema

figures: $(VENV)/.tests ## Print figures of the code base: lines, prose, class names, small files
	@$(VENV)/bin/python -m infra.figures

cost: $(VENV)/.tests ## Count what things cost, on the emulated stack, and write docs/cost.md
	@$(VENV)/bin/python -m infra.cost

sam-local: $(VENV)/.runs ## Serve the built functions with `sam local start-api` (needs docker)
	@exec $(VENV)/bin/python -m infra.sam_local $(SAM)

smoke: $(VENV)/.runs ## Check a deployed stack with the official client (URL=…, AGENT=…, WEBHOOK=…, TOKEN=…; URL=--help)
	@exec $(VENV)/bin/aion smoke $(URL)

clean: ## Take away what make has made
	rm -rf $(VENV) mutants .sam .aws-sam .cache .mypy_cache .ruff_cache .pytest_cache

# What `sam build` calls, a target for each function.
include infra/functions.mk

# uv itself comes from PyPI, into the project's environment.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; PYTHON=python3.13 make … names another one."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv

# What the server needs, and nothing more; a stamp says that it is there.
$(VENV)/.runs: pyproject.toml uv.lock | $(UV)
	$(SYNC) --no-default-groups --group agents --extra api --extra queue --extra langgraph --extra adk --extra local
	@touch $@

$(VENV)/.tests: pyproject.toml uv.lock | $(UV)
	$(SYNC)
	@touch $@ $(VENV)/.runs
