"""A project's template, nested stacks and Makefile rule brought to the installed version: planned, shown, written."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aion_core import __version__
from aion_core.project import base
from aion_core.project.errors import ProjectError
from aion_core.project.files import build_rule, shipped_files
from aion_core.project.makefile import block_of, has_own_rule, with_block
from aion_core.project.merge import Fate, Outcome, outcome
from aion_core.shipped import shipped

CHANGING = frozenset({Fate.ADDED, Fate.REPLACED, Fate.MERGED, Fate.REMOVED})
"""Fates by which a file of the project becomes another."""

FOR_THE_AUTHOR = frozenset({Fate.CONFLICT, Fate.UNKNOWN})
"""Fates that leave the file as it is, and a `.new` file beside it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file of the project in an upgrade."""

    path: str
    fate: Fate
    before: str | None
    after: str | None
    """The file's text after the upgrade; of a fate for the author the text of the `.new` file. None: not there."""

    @property
    def diff(self) -> str:
        """The unified diff."""
        before = (self.before or "").splitlines(keepends=True)
        after = (self.after or "").splitlines(keepends=True)
        old, new = (f"{side}/{self.path}" for side in ("a", "b"))
        names = (old if self.before is not None else "/dev/null", new if self.after is not None else "/dev/null")
        return "".join(difflib.unified_diff(before, after, *names))


@dataclass(frozen=True, slots=True)
class Upgrade:
    """All that an upgrade does to a project."""

    project: Path
    version: str
    """The version of aion-lambda that the project's files are of; empty where nothing is recorded."""
    changes: tuple[Change, ...]
    waiting: tuple[str, ...]
    """The `.new` files of an earlier upgrade, which the author has still to resolve."""
    shipped: Mapping[str, str]

    @property
    def is_needed(self) -> bool:
        """True if it would write a file, or a file waits for the author."""
        fates = {change.fate for change in self.changes}
        return bool(self.waiting or fates & (CHANGING | FOR_THE_AUTHOR))


def find_project(here: Path) -> Path:
    """Return the folder with template.yaml and infra/: this one, or one above it; raises ProjectError."""
    for folder in (here, *here.parents):
        if (folder / "template.yaml").is_file() and (folder / "infra").is_dir():
            if folder.resolve() == shipped().resolve():
                raise ProjectError("This is aion-lambda's own repository: its template is the one that is shipped.")
            return folder
    raise ProjectError(
        "There is no project here: no template.yaml with an infra folder. Run `aion init`, which writes them."
    )


def plan(project: Path, *, new: Mapping[str, str] | None = None, version: str = __version__) -> Upgrade:
    """Return what brings the project to the shipped files; raises ProjectError where those are older than the project's.

    `new` are other shipped files than the installed ones, of another `version`.
    """
    if new is None:
        new = {**shipped_files(shipped()), base.RULE: build_rule()}
    recorded = base.read(project)
    if _numbers(recorded.version) > _numbers(version):
        raise ProjectError(
            f"The project's files are of aion-lambda {recorded.version}, and {version} is installed here. Install the "
            f"newer one first: uv lock --upgrade-package aion-lambda && uv sync"
        )
    changes, waiting = [], []
    for name in sorted({*new, *recorded.files}):
        path = "Makefile" if name == base.RULE else name
        if _beside(project / path).exists():
            waiting.append(_beside(Path(path)).as_posix())
            continue
        if name == base.RULE:
            changes.append(_makefile_change(project, recorded.files.get(name), new.get(name)))
        else:
            current = _text(project / name)
            changes.append(_change(name, current, outcome(current, recorded.files.get(name), new.get(name))))
    return Upgrade(project, recorded.version, tuple(changes), tuple(waiting), new)


def apply(upgrade: Upgrade, *, version: str = __version__) -> None:
    """Write what was planned, and record the shipped files.

    A file that is left to its author gets one with `.new` after its name beside it.
    """
    for change in upgrade.changes:
        file = upgrade.project / change.path
        if change.fate in FOR_THE_AUTHOR:
            base.put(_beside(file), change.after or "")
        elif change.fate is Fate.REMOVED:
            file.unlink(missing_ok=True)
        elif change.fate in CHANGING:
            base.put(file, change.after or "")
    recorded = base.read(upgrade.project).files
    waiting = {path.removesuffix(".new") for path in upgrade.waiting}
    # A file that still waits was compared with the copies that are recorded, and is again.
    kept = {name: text for name, text in recorded.items() if (name if name != base.RULE else "Makefile") in waiting}
    files = {**upgrade.shipped, **kept}
    if (upgrade.version, dict(recorded)) != (version, files):
        base.write(upgrade.project, files, version)


def _makefile_change(project: Path, known: str | None, new: str | None) -> Change:
    """Return the change of the Makefile, by its marked block; a rule of the author's own is left alone."""
    text = _text(project / "Makefile")
    block = block_of(text) if text is not None else None
    if block is None and text is not None and has_own_rule(text):
        return Change("Makefile", Fate.OWN, text, text)
    decided = outcome(block, known, new)
    after = text if decided.text is None else with_block(text or "", decided.text)
    if decided.fate is Fate.REMOVED:
        return Change("Makefile", Fate.ORPHANED, text, text)
    return Change("Makefile", decided.fate, text, after)


def _change(path: str, before: str | None, decided: Outcome) -> Change:
    return Change(path, decided.fate, before, decided.text)


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.new")


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
