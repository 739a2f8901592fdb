"""Error messages for mistakes in aion.yaml."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aion_core.auth.schemes.api_key import HEADER
from aion_core.loading.aion_yaml.card import LISTABLE
from aion_core.loading.aion_yaml.field_types import MEDIA_TYPE, WEB_ADDRESS
from aion_core.loading.aion_yaml.file import ConfigFile
from aion_core.loading.aion_yaml.misplaced_keys import misplaced
from aion_core.loading.aion_yaml.remotes import REMOTE_URL
from aion_core.loading.aion_yaml.security import SCHEME_TYPES, SCOPE


def error_texts(path: Path, error: ValidationError) -> list[str]:
    """Return a message for each mistake that pydantic has found in the file."""
    problems = error.errors()
    unknown = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    if unknown and any(problem["loc"] == ("aion",) for problem in problems):
        # Report only the misplaced keys, because keys at the wrong level also cause the error that `aion` is missing.
        problems = unknown
    return [f"{path}: {_error_text(problem)}" for problem in problems]


def _error_text(problem: Any) -> str:
    where = [str(step) for step in problem["loc"] if step != "[key]"]
    if "schemes" in where[:-2] and where[where.index("schemes") + 2] in SCHEME_TYPES:
        # Remove the scheme's type from the path of keys, because pydantic has inserted it and the file has no such key.
        del where[where.index("schemes") + 2]
    key = ".".join(where) or "the file"
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a key that aion knows{misplaced(ConfigFile, where) or '.'}"
    if problem["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return f"{key}.type has to be one of {', '.join(SCHEME_TYPES)}."
    if problem["type"] == "missing":
        return f"{key} is missing."
    if problem["type"] == "value_error":
        return f"{key}: {problem['ctx']['error']}."
    if len(where) == 3 and where[:2] == ["aion", "agents"] and isinstance(problem["input"], str):
        return _agent_text(key, problem)
    if error_text := _ERROR_TEXTS.get((problem["type"], problem.get("ctx", {}).get("pattern"))):
        return f"{key} {error_text(problem['input'])}"
    return f"{key}: {problem['msg']}."


def _agent_text(key: str, problem: Any) -> str:
    if problem["type"] == "string_pattern_mismatch":
        return f"{key}: an agent's id has at most 64 letters, digits, '-' and '_', and begins with a letter or digit."
    return f"{key} is {problem['input']!r}. Write the path as a key below it: `path: {problem['input']}`."


def _not_a_mapping(value: Any) -> str:
    if value is None:
        return "is empty: it has keys of its own."
    return f"is {'a list' if isinstance(value, list) else repr(value)}: it has keys of its own, `key: value`."


_ERROR_TEXTS: dict[tuple[str, str | None], Callable[[Any], str]] = {
    ("model_type", None): _not_a_mapping,
    ("dict_type", None): _not_a_mapping,
    ("string_too_short", None): lambda _: "is empty.",
    ("too_short", None): lambda _: "is empty.",
    ("bool_type", None): lambda value: f"is {value!r}: it has to be true or false, without quotes.",
    ("string_type", None): lambda value: f"is {value!r}, which YAML does not read as text: put it in quotes.",
    ("string_pattern_mismatch", MEDIA_TYPE): lambda value: f"is {value!r}: a media type is like 'text/plain'.",
    ("string_pattern_mismatch", SCOPE): lambda value: f"is {value!r}: a scope is a word without spaces and quotes.",
    ("string_pattern_mismatch", HEADER): lambda value: (
        f"is {value!r}: it has to be a header's name, such as X-API-Key."
    ),
    ("string_pattern_mismatch", LISTABLE): lambda value: (
        f"is {value!r}: it has no spaces and no commas, since the header A2A-Extensions lists it with others."
    ),
    ("string_pattern_mismatch", REMOTE_URL): lambda value: (
        f"is {value!r}: it has to be an http or https URL, or begin with a variable: ${{NAME}}."
    ),
    ("string_pattern_mismatch", WEB_ADDRESS): lambda value: f"is {value!r}: it has to be an http or https URL.",
}
"""Messages by error type and pattern, for errors that pydantic describes poorly."""
