# The rule that `sam build` calls for each function with `BuildMethod: makefile`: make build-<logical id>, with ARTIFACTS_DIR.
# The folder may be a copy of the project without an environment, so aion is looked for on the path, too.
AION ?= $(or $(wildcard .venv/bin/aion),$(shell command -v aion),$(error aion is not there: install aion-lambda[local]))

build-%:
	@$(AION) build $* --to "$(ARTIFACTS_DIR)"
