"""The rule for `sam build` within a Makefile: found, replaced and appended between its two marking lines. Pure."""

import re

_FIRST, _LAST = "# >>> aion", "# <<< aion"
_BLOCK = re.compile(rf"^{re.escape(_FIRST)}.*?^{re.escape(_LAST)}[^\n]*\n?", re.MULTILINE | re.DOTALL)
_OWN_RULE = re.compile(r"^build-(%|[A-Za-z]+Function)\s*:", re.MULTILINE)


def block_of(text: str) -> str | None:
    """Return the marked block of a Makefile, with its marking lines; None without one."""
    found = _BLOCK.search(text)
    return found[0].rstrip("\n") + "\n" if found else None


def has_own_rule(text: str) -> bool:
    """Tell whether the Makefile has a rule of its author's for `sam build`."""
    return _OWN_RULE.search(_BLOCK.sub("", text)) is not None


def with_block(text: str, block: str) -> str:
    """Return the Makefile with the block in place of the one it has, or at its end."""
    if block_of(text) is not None:
        return _BLOCK.sub(lambda _: block, text, count=1)
    before = text.rstrip("\n")
    return f"{before}\n\n{block}" if before else block
