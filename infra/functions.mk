# Rule of `sam build` for functions with `BuildMethod: makefile`: make build-<logical id>, with ARTIFACTS_DIR.
# The folder may be a copy of the project without a virtual environment; then aion is found on the path.
AION ?= $(or $(wildcard .venv/bin/aion),$(shell command -v aion),$(error aion is not installed: install aion-lambda[local]))

build-%:
	@$(AION) build $* --to "$(ARTIFACTS_DIR)"
