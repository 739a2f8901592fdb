# >>> aion: what `sam build` calls; `aion upgrade` keeps it current >>>
AION ?= $(or $(wildcard .venv/bin/aion),$(shell command -v aion),uv run aion)
build-%:
	@$(AION) build $* --to "$(ARTIFACTS_DIR)"
# <<< aion <<<
