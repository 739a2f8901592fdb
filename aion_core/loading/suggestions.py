"""Suggestion of the name that an author has probably meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return the question "Did you mean …?" with the most similar name; "" if no name has this similarity (0 to 1)."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=similarity)
    return f"Did you mean {near[0]!r}?" if near else ""
