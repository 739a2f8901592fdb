"""Source files of a traceback: those of the agent's author, of aion and of libraries."""

from functools import cache, lru_cache
from pathlib import Path
from traceback import walk_tb

_ROOT = Path(__file__).parents[1]
_OURS = tuple(_ROOT / folder for folder in ("aion_core", "aion_tools", "aion", "handlers"))


@cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of the installed packages and of Python's own."""
    # Import late: every function imports this module, and reading Python's configuration takes 3 ms.
    import sysconfig

    paths = sysconfig.get_paths()
    return tuple(dict.fromkeys(paths[name] for name in ("purelib", "platlib", "stdlib")))


@lru_cache(maxsize=1024)
def package_of(filename: str) -> str:
    """Return the name of the package that contains the file, or "" for a file of the agent's author."""
    path = Path(filename)
    if any(path.is_relative_to(folder) for folder in _OURS):
        return "aion_core"
    for folder in _libraries():
        if path.is_relative_to(folder):
            return path.relative_to(folder).parts[0].removesuffix(".py")
    # For a dependency in the site-packages of another environment, return its package; for code without a file,
    # "Python".
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")
    return "Python" if filename.startswith("<") else ""


def line_of_author(error: BaseException) -> str:
    """Return the place in the author's code that has raised the error or called what did, as `agent.py:12`; "" if none."""
    frames = ((frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__))
    places = [f"{Path(filename).name}:{line}" for filename, line in frames if not package_of(filename)]
    return places[-1] if places else ""
