"""Explanation of an exception raised while an agent is loaded: its text, the author's line and the remedy."""

import linecache
import os
import sysconfig
import threading
import traceback
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from aion_core.errors import AgentLoadError
from aion_core.loading.load_errors.source_lines import display_path, location

LONGEST = 300
"""Maximum number of characters of an exception's text within an error message."""

_LIBRARIES = ("site-packages", "dist-packages")
_OURS = str(Path(__file__).parents[2])
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)})


def explain_error(
    error: BaseException, subject: str, folder: Path, verb: str = "cannot be imported:", *, file: Path | None = None
) -> AgentLoadError:
    """Return an AgentLoadError with an exception's text, its file and line, and the remedy.

    `subject` begins the message, for example the path of the agent. File names are relative to the project's `folder`.
    If no line of the author's code is known, the error names `file`. The caller sets the error's `__cause__`.
    """
    # Import late, because most agents load without an error.
    from aion_core.loading.load_errors.remedies import remedy_of

    own, line, source = _author_frame(error, folder)
    return AgentLoadError(
        f"{subject} {verb} {type(error).__name__}: {exception_text(error)}",
        where=location(own, [line], folder) if own else display_path(file, folder) if file is not None else "",
        source=source,
        do=remedy_of(error, own, folder),
    )


def exception_text(error: BaseException) -> str:
    """Return the exception's text as one short line."""
    if isinstance(error, SyntaxError):
        return str(error.msg)
    problems = getattr(error, "errors", None)
    if callable(problems) and type(error).__module__.startswith("pydantic"):
        fields = [f"{'.'.join(map(str, problem['loc'])) or 'value'}: {problem['msg']}" for problem in problems()]
        return _shortened("; ".join(fields))
    return _shortened(" ".join(str(error).split()))


def is_from_user(error: BaseException) -> bool:
    """Return True if the user has pressed Ctrl-C. Python raises its KeyboardInterrupt in the main thread only."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _author_frame(error: BaseException, folder: Path) -> tuple[str, int, str]:
    """Return file, line and source of the author's innermost code in an exception's traceback.

    Return ("", 0, "") if the traceback contains no code of the author.
    """
    if isinstance(error, SyntaxError) and error.filename and not _is_library(error.filename, folder):
        return error.filename, error.lineno or 1, (error.text or "").strip()
    found = ("", 0, "")
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not _is_library(file, folder):
            linecache.checkcache(file)
            found = file, line, linecache.getline(file, line).strip()
    return found


def _is_library(file: str, folder: Path) -> bool:
    if file.startswith("<"):
        return True
    path, own = Path(file), folder.resolve()
    if any(name in path.parts for name in _LIBRARIES):
        return True
    if path.is_relative_to(own) and not path.is_relative_to(_OURS):
        return path.relative_to(own).parts[0].removesuffix(".py") in _installed_in(own)
    return file.startswith((f"{_OURS}{os.sep}", *(f"{place}{os.sep}" for place in _STDLIB)))


@cache
def _installed_in(folder: Path) -> frozenset[str]:
    """Return the names of the packages installed next to the agent's code, as in a Lambda package."""
    return frozenset(packages_distributions()) if Path(_OURS).parent == folder else frozenset()
