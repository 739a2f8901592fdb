# What `sam build` calls for each function with `BuildMethod: makefile`: make build-<logical id>, with ARTIFACTS_DIR.
# The folder may be a copy of the project without an environment, so uv is looked for on the path too.
BUILD_UV = $(or $(wildcard .venv/bin/uv),$(shell command -v uv),$(error uv is not there: make test brings it))

build-%:
	@$(BUILD_UV) run --quiet --no-project --isolated --python '>=3.11' --with 'pyyaml>=6' \
	  python -m aion_core.packaging.build_function $* "$(ARTIFACTS_DIR)"
