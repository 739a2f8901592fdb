"""File watcher for the agents' code, configuration and prompts."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

from aion_tools.dev.data_folder import DataFolder

SUFFIXES = (".py", ".pyi", ".yaml", ".yml", ".json", ".toml", ".env")
PROMPTS = "prompts"
"""Name of a folder with prompts. An edit of any file in it reloads the agents."""

_IGNORED = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})
_STEP, _DEBOUNCE = 50, 300
"""Edits are reported after `_STEP` milliseconds without a further edit, or at the latest after `_DEBOUNCE`."""


class EditFilter(DefaultFilter):
    """Filter of file changes for code, configuration and prompts outside of ignored folders."""

    def __init__(self, root: Path, data: DataFolder) -> None:
        """Accept changes below `root`, except the server's own files in its data folder."""
        super().__init__()
        self._root, self._data = root, data

    def __call__(self, change: Change, path: str) -> bool:
        """Return True if the changed file may affect the agents."""
        place = Path(path)
        inner = place.relative_to(self._root) if place.is_relative_to(self._root) else place
        if any(is_ignored(self._root / part) for part in inner.parts[:-1]) or self._data.is_own(place):
            return False
        if place.name.startswith(".env") or PROMPTS in inner.parts[:-1]:
            return not place.name.endswith(("~", ".swp", ".tmp"))
        return place.suffix in SUFFIXES


def named(paths: Iterable[str]) -> str:
    """Return a short list of edited files as text, with paths relative to the current folder."""
    try:
        names = sorted({os.path.relpath(path) for path in paths}, key=len)
    except OSError:
        # Print the paths unchanged, because a deleted current folder has no path to make them relative to.
        names = sorted(set(paths), key=len)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def is_ignored(folder: Path) -> bool:
    """Return True for a folder that cannot contain agents' code: a hidden folder, a virtual environment or a cache."""
    return folder.name in _IGNORED or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists()


class Watcher:
    """File watcher with threads that report edits below some folders."""

    def __init__(
        self,
        folders: Iterable[Path],
        data: DataFolder,
        edited: Callable[[Iterable[str]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Watch the folders. Call `edited` with the edited paths, or `failed` if the folders cannot be watched."""
        self._data, self._edited, self._failed = data, edited, failed
        roots = [folder.resolve() for folder in folders]
        self._threads = [
            threading.Thread(target=self._watch, args=(root, paths, recursive), name="edits", daemon=True)
            for root in dict.fromkeys(roots)
            if not any(root.is_relative_to(other) for other in roots if other != root)
            for paths, recursive in ((_itself, False), (_inner, True))
        ]

    def start(self) -> None:
        """Start the threads of the watcher."""
        for thread in self._threads:
            thread.start()

    def _watch(self, root: Path, paths: Callable[[Path], list[Path]], recursive: bool) -> None:
        # Do not watch ignored folders, because a virtual environment may have more folders than the operating system
        # can watch.
        try:
            watched = paths(root)
            if not watched:
                return
            for changes in watch(
                *watched,
                watch_filter=EditFilter(root, self._data),
                step=_STEP,
                debounce=_DEBOUNCE,
                recursive=recursive,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self._edited(path for _, path in changes)
        # Report every exception, because watchfiles raises various errors of the operating system.
        except Exception as error:
            self._failed(error)


def _itself(root: Path) -> list[Path]:
    return [root]


def _inner(root: Path) -> list[Path]:
    """Return the subfolders of `root` to watch with all their subfolders. Ignored folders are omitted."""
    if root in (Path.home(), Path(root.anchor)):
        # Watch no subfolders of the home folder or of the root folder, because they contain too many unrelated files.
        return []
    try:
        return [path for path in sorted(root.iterdir()) if path.is_dir() and not is_ignored(path)]
    except OSError:
        return []
