# Rule for `sam build`, which calls `make build-<logical id>` with ARTIFACTS_DIR for functions with `BuildMethod: makefile`.
# If the folder is a copy of the project without a virtual environment, the rule uses the `aion` on PATH.
AION ?= $(or $(wildcard .venv/bin/aion),$(shell command -v aion),$(error aion is not installed: install aion-lambda[local]))

build-%:
	@$(AION) build $* --to "$(ARTIFACTS_DIR)"
