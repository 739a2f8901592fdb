# >>> aion: rule for `sam build`, kept current by `aion upgrade` >>>
AION ?= $(or $(wildcard .venv/bin/aion),$(shell command -v aion),uv run aion)
build-%:
	@$(AION) build $* --to "$(ARTIFACTS_DIR)"
# <<< aion <<<
