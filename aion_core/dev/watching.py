"""Watches the agents' code and configuration for edits."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

SUFFIXES = (".py", ".pyi", ".yaml", ".yml", ".json", ".toml", ".env")
PROMPTS = "prompts"
"""A folder in which each file counts, whatever its name."""

_IGNORED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
_STEP, _DEBOUNCE = 50, 300
"""Milliseconds: so long nothing may change before an edit is told, and so long at the most it is waited for that."""


class Edits(DefaultFilter):
    """Lets through what the agents are made of: code, configuration and prompts, outside of ignored folders."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __call__(self, change: Change, path: str) -> bool:
        """Tell whether the change is to be told."""
        place = Path(path)
        inner = place.relative_to(self._root) if place.is_relative_to(self._root) else place
        if any(is_ignored(self._root / part) for part in inner.parts[:-1]):
            return False
        if place.name.startswith(".env") or PROMPTS in inner.parts[:-1]:
            return not place.name.endswith(("~", ".swp", ".tmp"))
        return place.suffix in SUFFIXES


def is_ignored(folder: Path) -> bool:
    """Tell whether a folder of this name holds nothing of the agents': hidden ones, environments, caches."""
    return folder.name in _IGNORED or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


class Watcher:
    """Threads that tell of edits below some folders, until `stop`."""

    def __init__(
        self, folders: Sequence[Path], told: Callable[[Iterable[str]], None], failed: Callable[[Exception], None]
    ) -> None:
        """`told` gets the paths that were edited; `failed` is called where they cannot be watched."""
        self._told, self._failed = told, failed
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(root, paths, recursive), name="edits", daemon=True)
            for root in folders
            for paths, recursive in ((_itself, False), (_inner, True))
        ]

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()

    def _watch(self, root: Path, paths: Callable[[Path], list[Path]], recursive: bool) -> None:
        # An ignored folder, such as an environment, may hold more folders than the system watches: it is left out here.
        try:
            watched = paths(root)
            if not watched:
                return
            for changes in watch(
                *watched,
                watch_filter=Edits(root),
                step=_STEP,
                debounce=_DEBOUNCE,
                stop_event=self._stopping,
                recursive=recursive,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self._told(path for _, path in changes)
        except Exception as error:  # watchfiles raises what the system does
            self._failed(error)


def _itself(root: Path) -> list[Path]:
    return [root]


def _inner(root: Path) -> list[Path]:
    """Return the folders in it that are watched with all that they hold."""
    if root in (Path.home(), Path(root.anchor)):
        # Everything that this user has is not the agents' code.
        return []
    try:
        return [path for path in sorted(root.iterdir()) if path.is_dir() and not is_ignored(path)]
    except OSError:
        return []
