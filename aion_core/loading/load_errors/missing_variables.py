"""Remedies of missing environment variables."""

import os
import re
import traceback
from pathlib import Path
from typing import Any

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
"""Pattern of an environment variable's name."""
_CONFIDENTIAL = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")
"""Last words in the names of environment variables with confidential values."""
_REQUESTED = (*_CONFIDENTIAL, "ENDPOINT", "URL", "PROJECT")
"""Last words in the names of environment variables that libraries commonly require."""


def variable_remedy(error: BaseException, file: str, folder: Path) -> str:
    """Return the remedy for a missing environment variable; "" for other errors."""
    if variable := _missing_variable(error):
        if variable.upper().endswith(_CONFIDENTIAL):
            deployed = "name its secret under `secrets` in aion.yaml for AWS"
        else:
            deployed = "set it under `environment` in aion.yaml for AWS"
        return f"Put {variable}=… into .env beside aion.yaml for this machine, and {deployed}."
    return ""


def _missing_variable(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        # Return the key only if `os.environ` raised the error, because a key of another mapping is no environment
        # variable.
        return error.args[0] if frames and frames[-1].f_globals.get("__name__") == "os" else ""
    if setting := _missing_setting(error):
        return setting
    text = str(error)
    named = [name for name in _VARIABLE.findall(text) if name not in os.environ]
    requested = [name for name in named if name.endswith(_REQUESTED)]
    if requested:
        return str(requested[0])
    return str(named[0]) if named and "environment" in text.lower() else ""


def _missing_setting(error: BaseException) -> str:
    """Return the variable of the first missing field in a pydantic-settings class; "" for other errors."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        settings: Any = type(frame.f_locals.get("__pydantic_self__"))
        if settings.__module__ != "builtins" and type(error).__name__ == "ValidationError":
            missing = [str(each["loc"][0]) for each in getattr(error, "errors", list)() if each["type"] == "missing"]
            prefix = settings.model_config.get("env_prefix", "")
            # Add the prefix to field names only, because pydantic reports a field with an alias under its alias, and an
            # alias has no prefix.
            names = [f"{prefix}{name}" if name in settings.model_fields else name for name in missing]
            return names[0].upper() if names else ""
    return ""
