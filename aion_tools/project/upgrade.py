"""Upgrade of a project's template, nested stacks and Makefile rule to the installed version of aion-lambda."""

import difflib
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from aion_core import __version__
from aion_tools.project import ProjectError, base
from aion_tools.project.files import block_of, build_rule, has_own_rule, shipped_files, with_block
from aion_tools.project.tools import read_text
from aion_tools.shipped import shipped


class FileOutcome(Enum):
    """Outcome of an upgrade for one file. The value is a text for the author."""

    CURRENT = "is current"
    KEPT = "keeps your edits; unchanged in aion-lambda"
    LEFT_OUT = "stays removed, as you removed it"
    ADDED = "added"
    REPLACED = "replaced"
    MERGED = "merged with your edits"
    OWN = "has your own rule for `sam build`; left unchanged"
    CONFLICT = "not changed: your edits conflict with the new version"
    UNKNOWN = "not changed: no record of its shipped text"
    REMOVED = "removed; no longer shipped"
    ORPHANED = "kept for your edits; no longer shipped"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """Result of merging one file, with its outcome and its new text."""

    outcome: FileOutcome
    text: str | None
    """Text of the file. For CONFLICT and UNKNOWN, the text that the author must resolve. None for a missing file."""


CHANGING = frozenset({FileOutcome.ADDED, FileOutcome.REPLACED, FileOutcome.MERGED, FileOutcome.REMOVED})
"""Outcomes that change the file."""

UNRESOLVED = frozenset({FileOutcome.CONFLICT, FileOutcome.UNKNOWN})
"""Outcomes that leave the file unchanged and write a `.new` file beside it."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """Planned change of one file of the project, with its text before and after the upgrade."""

    path: str
    outcome: FileOutcome
    before: str | None
    after: str | None
    """Text after the upgrade. For an unresolved outcome, the text of the `.new` file. None if the file is missing."""

    @property
    def diff(self) -> str:
        """Unified diff of the file's text before and after the upgrade."""
        before = (self.before or "").splitlines(keepends=True)
        after = (self.after or "").splitlines(keepends=True)
        old, new = (f"{side}/{self.path}" for side in ("a", "b"))
        names = (old if self.before is not None else "/dev/null", new if self.after is not None else "/dev/null")
        return "".join(difflib.unified_diff(before, after, *names))


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Plan of an upgrade, with a change for each file."""

    project: Path
    version: str
    """Version of aion-lambda that shipped the project's files. Empty if it is unknown."""
    changes: tuple[FileChange, ...]
    waiting: tuple[str, ...]
    """Paths of unresolved `.new` files of an earlier upgrade."""
    shipped: Mapping[str, str]

    @property
    def is_needed(self) -> bool:
        """True if the upgrade would write a file, or if a `.new` file is unresolved."""
        outcomes = {change.outcome for change in self.changes}
        return bool(self.waiting or outcomes & (CHANGING | UNRESOLVED))


def find_project(here: Path) -> Path:
    """Return this folder or the nearest parent with template.yaml and infra/. Raises ProjectError if there is none."""
    for folder in (here, *here.parents):
        if (folder / "template.yaml").is_file() and (folder / "infra").is_dir():
            if folder.resolve() == shipped().resolve():
                raise ProjectError("This is aion-lambda's own repository: its template is the shipped one.")
            return folder
    raise ProjectError(
        "There is no project here: no template.yaml with an infra folder. Run `aion init` to create them."
    )


def plan(project: Path, *, new: Mapping[str, str] | None = None, version: str = __version__) -> Upgrade:
    """Plan the upgrade of the project to the shipped files. Raises ProjectError if the project's files are newer.

    By default, the installed version's files are the shipped files. `new` has the files of another `version`.
    """
    if new is None:
        new = {**shipped_files(shipped()), base.RULE: build_rule()}
    recorded = base.read(project)
    if _numbers(recorded.version) > _numbers(version):
        raise ProjectError(
            f"The project's files are from aion-lambda {recorded.version}, but {version} is installed here. Install the "
            f"newer version first: uv lock --upgrade-package aion-lambda && uv sync"
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
            changes.append(_change(name, current, merge_result(current, recorded.files.get(name), new.get(name))))
    return Upgrade(project, recorded.version, tuple(changes), tuple(waiting), new)


def apply(upgrade: Upgrade, *, version: str = __version__) -> None:
    """Write the planned changes, and copies of the shipped files for the next upgrade.

    For an unresolved file, write a `.new` file beside it.
    """
    for change in upgrade.changes:
        file = upgrade.project / change.path
        if change.outcome in UNRESOLVED:
            base.put(_beside(file), change.after or "")
        elif change.outcome is FileOutcome.REMOVED:
            file.unlink(missing_ok=True)
        elif change.outcome in CHANGING:
            base.put(file, change.after or "")
    recorded = base.read(upgrade.project).files
    waiting = {path.removesuffix(".new") for path in upgrade.waiting}
    # Keep the old copies of unresolved files, because the next upgrade compares with them.
    kept = {name: text for name, text in recorded.items() if (name if name != base.RULE else "Makefile") in waiting}
    files = {**upgrade.shipped, **kept}
    if (upgrade.version, dict(recorded)) != (version, files):
        base.write(upgrade.project, files, version)


def _makefile_change(project: Path, known: str | None, new: str | None) -> FileChange:
    """Plan the change of aion's block in the Makefile. An author's own rule for `sam build` stays unchanged."""
    text = _text(project / "Makefile")
    block = block_of(text) if text is not None else None
    if block is None and text is not None and has_own_rule(text):
        return FileChange("Makefile", FileOutcome.OWN, text, text)
    decided = merge_result(block, known, new)
    after = text if decided.text is None else with_block(text or "", decided.text)
    if decided.outcome is FileOutcome.REMOVED:
        return FileChange("Makefile", FileOutcome.ORPHANED, text, text)
    return FileChange("Makefile", decided.outcome, text, after)


def _change(path: str, before: str | None, decided: MergeResult) -> FileChange:
    return FileChange(path, decided.outcome, before, decided.text)


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.new")


def _text(file: Path) -> str | None:
    return read_text(file) if file.is_file() else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def merge_result(current: str | None, base: str | None, new: str | None) -> MergeResult:
    """Merge a file from its text in the project, its earlier shipped text (`base`), and its shipped text now (`new`).

    None means a missing file or, for `base`, an unknown text. If git is not installed, differing edits are a conflict.
    """
    if new is None and current is None:
        return MergeResult(FileOutcome.CURRENT, None)
    if new is None:
        return MergeResult(FileOutcome.REMOVED, None) if current == base else MergeResult(FileOutcome.ORPHANED, current)
    if current is None:
        return MergeResult(FileOutcome.ADDED, new) if base is None else MergeResult(FileOutcome.LEFT_OUT, None)
    if current == new:
        return MergeResult(FileOutcome.CURRENT, current)
    if base is None:
        return MergeResult(FileOutcome.UNKNOWN, new)
    if current == base:
        return MergeResult(FileOutcome.REPLACED, new)
    if base == new:
        return MergeResult(FileOutcome.KEPT, current)
    merged = _merged(current, base, new)
    if merged is None:
        return MergeResult(FileOutcome.CONFLICT, new)
    text, conflicts = merged
    return MergeResult(FileOutcome.CONFLICT if conflicts else FileOutcome.MERGED, text)


def _merged(current: str, base: str, new: str) -> tuple[str, bool] | None:
    """Merge three texts with git. Return the merged text and True if it has conflicts, or None if git cannot merge."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("yours", "base", "new")]
        for file, text in zip(files, (current, base, new), strict=True):
            file.write_text(text, encoding="utf-8", newline="\n")
        labels = ["-L", "yours", "-L", "as shipped before", "-L", "as shipped now"]
        command = ["git", "merge-file", "--stdout", *labels, *map(str, files)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")  # noqa: S603
        except FileNotFoundError:
            return None
    # The exit code is the number of conflicts, up to 127. Larger codes are errors.
    return (ran.stdout, ran.returncode > 0) if 0 <= ran.returncode <= 127 else None
