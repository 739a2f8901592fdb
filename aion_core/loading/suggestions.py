"""Suggestion of the name that an author has probably meant."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the question "Did you mean …?" with the most similar name; "" if no name is similar."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
