"""Packages of the extra `local`, which the commands need, and the error message if they are not installed."""

import traceback
from importlib.util import find_spec

_NAMED = ("moto", "tomlkit", "watchfiles")
"""Some of the extra's packages. Few other distributions install all of them."""
_OWN = ("aion", "aion_core", "aion_tools")
_IMPORTING = (*_OWN, "a2a")
"""Packages whose imports need optional dependencies (extras of aion-lambda)."""


def missing_package() -> str | None:
    """Return the name of a missing package of the extra `local`; None if the extra is installed. Imports nothing."""
    return next((name for name in _NAMED if find_spec(name) is None), None)


def how_to_install(missing: str) -> str:
    """Return the error message for a missing package, with the commands that install it."""
    return (
        f"{missing} is missing. Install aion-lambda[local]: `uv add --dev 'aion-lambda[local]'` or "
        "`pip install 'aion-lambda[local]'`; in a project of `aion new`, `uv sync`."
    )


def missing_import(error: ImportError) -> str | None:
    """Return the name of a package missing because an extra of aion-lambda is not installed.

    Return None if the import failed in the agent author's code, or for a module of aion itself.
    """
    # Use the cause, because the a2a-sdk raises its own ImportError for a missing package's ModuleNotFoundError.
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__ or error.__context__
    if not isinstance(cause, ModuleNotFoundError) or not cause.name:
        return None
    names = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(cause.__traceback__))
    importing = [name for name in names if name.partition(".")[0] not in ("importlib", "_frozen_importlib")]
    if not importing or importing[-1].partition(".")[0] not in _IMPORTING or cause.name.partition(".")[0] in _OWN:
        return None
    return cause.name
