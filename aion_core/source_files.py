"""Source files of a traceback: those of the agent's author, of aion and of libraries."""

import sysconfig
from functools import lru_cache
from pathlib import Path
from traceback import FrameSummary, extract_tb

_ROOT = Path(__file__).parents[1]
_OURS = tuple(_ROOT / folder for folder in ("aion_core", "aion_tools", "aion", "handlers"))
_LIBRARIES = tuple(dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib")))
_STANDARD = sysconfig.get_paths()["stdlib"]


@lru_cache(maxsize=1024)
def package_of(filename: str) -> str:
    """Return the name of the package that contains the file, or "" for a file of the agent's author."""
    path = Path(filename)
    if any(path.is_relative_to(folder) for folder in _OURS):
        return "aion_core"
    for folder in (*_LIBRARIES, _STANDARD):
        if path.is_relative_to(folder):
            return path.relative_to(folder).parts[0].removesuffix(".py")
    # For a dependency in the site-packages of another environment, return its package; for code without a file,
    # "Python".
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")
    return "Python" if filename.startswith("<") else ""


def line_of_author(error: BaseException) -> str:
    """Return the place in the author's code that has raised the error or called what did, as `agent.py:12`; "" if none."""
    frames: list[FrameSummary] = [each for each in extract_tb(error.__traceback__) if not package_of(each.filename)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
