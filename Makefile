# Commands of the repository; `make help` lists them. `make dev` and `make test` install everything they need on the first run.

PYTHON ?= python3
VENV := .venv
UV := $(VENV)/bin/uv
# Not exported: the tests run uv in projects of their own, whose environments are not this one.
SYNC := UV_PROJECT_ENVIRONMENT=$(abspath $(VENV)) $(UV) sync --frozen --quiet --inexact

# Many containers set PYTHONDONTWRITEBYTECODE. With it, each process that the tests start would compile its imports again.
unexport PYTHONDONTWRITEBYTECODE

# Four workers on two cores, because many tests wait for other processes: three take a tenth longer, and five don't take less.
# A worker runs whole files, in the order of tests/conftest.py.
SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder

AUDIT := $(UV) tool run pip-audit==2.10.1 --strict --disable-pip --require-hashes --requirement .cache/locked.txt

.DEFAULT_GOAL := help
.PHONY: help dev test quick test-databases test-deep mutants replay check lint lint-code format package-check package-sizes bench screenshots terminal newcomer bench-dev message-path docs openapi schema lock dist lines cost sam-local clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

dev: $(VENV)/.runs ## Serve the agents of aion.yaml on http://127.0.0.1:8000 (PORT=…, AION_CONFIG=…, AUTH=on)
	@exec $(VENV)/bin/aion dev

test: $(VENV)/.tests ## Run the tests, with the import contracts but no other lint, and without the long tests of `test-deep`
	$(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) $(PYTEST)

quick: lint-code ## Run the tests nearest to the changes since main, and lint
	@tests="$$($(VENV)/bin/python -m scripts.nearest)"; \
	  if [ -n "$$tests" ]; then $(VENV)/bin/python -m pytest -n 2 --dist loadfile $$tests $(PYTEST); else echo "No test is near."; fi

test-databases: export AION_TEST_DATABASES ?= all
test-databases: $(VENV)/.tests ## Run every contract test on every database (AION_TEST_DATABASES=moto,ministack)
	$(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) tests/runtime/contract tests/tools/contract $(PYTEST)

test-deep: export AION_TEST_DATABASES ?= all
test-deep: $(VENV)/.tests ## Run all tests: 20,000 schedules, pairs of crashes, planted bugs, mutants, every database, containers, lint
	SIMULATION_DEEP=1 $(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) -m 'deep or not deep' $(PYTEST)
	$(VENV)/bin/python -m scripts.mutants

mutants: $(VENV)/.tests ## Run the mutation tests of the rules; fail below 90 % killed, or if a survivor has no explanation
	$(VENV)/bin/python -m scripts.mutants

replay: $(VENV)/.tests ## Print every effect of one simulated schedule (SEED=…)
	@$(VENV)/bin/python -m tests.simulation $(SEED)

# PyPI's own API knows the advisories; a mirror of PyPI often lacks it, and then the OSV database is asked.
check: lint ## Run `lint`, write the bill of materials, and audit the lock file
	@mkdir -p .cache
	$(UV) export --frozen --quiet --no-default-groups --group agents --extra api --extra queue --extra adk \
	  --extra langgraph --format cyclonedx1.5 --preview-features sbom-export \
	  --output-file .cache/sbom.cdx.json
	$(UV) export --frozen --quiet --no-emit-project --all-extras --all-groups --output-file .cache/locked.txt
	$(AUDIT) --vulnerability-service pypi || $(AUDIT) --vulnerability-service osv

lint: lint-code ## Check style, types, imports and the template's policies
	$(VENV)/bin/python -m scripts.policies.check

# `lint` also checks the template. So do the tests of tests/repository/policies in `make test-deep`.
lint-code: $(VENV)/.tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

lock: | $(UV) ## Update uv.lock (LOCK=--upgrade takes the newest versions)
	$(UV) lock --quiet $(LOCK)

dist: | $(UV) ## Build the wheel and the source distribution in dist/
	$(UV) build --quiet --no-create-gitignore --out-dir dist

format: $(VENV)/.tests ## Format the code
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

package-check: $(VENV)/.tests ## Build the functions' packages; fail above their budgets of size, modules and memory
	@$(VENV)/bin/python -m scripts.package_check

package-sizes: $(VENV)/.tests ## Build six realistic projects; fail if a package is larger than a plain installation by uv
	@$(VENV)/bin/python -m scripts.package_sizes

bench: $(VENV)/.tests ## Measure this server, the SDK's server and a bare app in one run (BENCH="--rounds 5 --write")
	@$(VENV)/bin/python -m bench $(BENCH)

bench-dev: $(VENV)/.tests ## Measure the time of `aion dev` to start, and to serve an edit
	$(VENV)/bin/python -m tests.repository.bench.dev_loop

newcomer: $(VENV)/.tests ## Measure a newcomer's first steps, with empty and with warm package caches (NEWCOMER=--check)
	@$(VENV)/bin/python -m tests.repository.bench.newcomer $(NEWCOMER)

screenshots: $(VENV)/.tests ## Take the screenshots of the docs with the browser tests
	SCREENSHOTS=docs/images $(VENV)/bin/python -m pytest -q -m 'deep or not deep' tests/tools/e2e/console

terminal: $(VENV)/.tests ## Record the terminal of the README from a real `aion dev` and `aion chat`, with a killed worker
	@$(VENV)/bin/python -m scripts.terminal

message-path: $(VENV)/.tests ## List the files that one streamed message passes through
	@$(VENV)/bin/python -m tests.repository.bench.message_path

docs: $(VENV)/.tests ## Build the documentation site in .cache/docs/site; fail at a warning
	@$(VENV)/bin/python -m scripts.docs_site

openapi: $(VENV)/.tests ## Generate docs/openapi.yaml from the operations table, with examples from a real server
	@$(VENV)/bin/python -m scripts.openapi.examples
	@$(VENV)/bin/python -m scripts.openapi.document

schema: $(VENV)/.tests ## Generate the JSON Schema of aion.yaml from its models
	@$(VENV)/bin/python -m scripts.config_schema

lines: $(VENV)/.tests ## Print lines per package, and long files
	@$(VENV)/bin/python -m scripts.lines

cost: $(VENV)/.tests ## Count the requests of operations on the emulated stack, and write docs/cost.md
	@$(VENV)/bin/python -m scripts.cost

sam-local: $(VENV)/.runs ## Serve the agents of aion.yaml by their functions in containers, with an emulated AWS (PORT=…; needs docker)
	@exec $(VENV)/bin/aion sam-local

clean: ## Delete everything that make has created
	rm -rf $(VENV) mutants .sam .aws-sam .cache .mypy_cache .ruff_cache .pytest_cache

# Targets that `sam build` calls, one for each function.
include infra/functions.mk

# Install uv itself from PyPI into the project's environment.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; PYTHON=python3.13 make … names another one."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv

# Install only the dependencies of the server. The stamp file marks the installation as complete.
$(VENV)/.runs: pyproject.toml uv.lock | $(UV)
	$(SYNC) --no-default-groups --group agents --extra api --extra queue --extra langgraph --extra adk --extra local
	@touch $@

$(VENV)/.tests: pyproject.toml uv.lock | $(UV)
	$(SYNC)
	@touch $@ $(VENV)/.runs
