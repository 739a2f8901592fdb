"""Fate of one shipped file in an upgrade: replaced, merged with its author's edits, or left for the author to resolve."""

import subprocess
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Fate(Enum):
    """Fate of a file in an upgrade."""

    CURRENT = "is current"
    KEPT = "keeps your edits; aion-lambda has not changed it"
    LEFT_OUT = "stays away, as you have removed it"
    ADDED = "added"
    REPLACED = "replaced"
    MERGED = "merged with your edits"
    OWN = "has a rule of its own for `sam build`, which is left alone"
    CONFLICT = "not changed: your edits and the new version concern the same lines"
    UNKNOWN = "not changed: which of its lines are yours is not recorded"
    REMOVED = "removed; aion-lambda no longer ships it"
    ORPHANED = "kept for your edits; aion-lambda no longer ships it"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A file after the upgrade."""

    fate: Fate
    text: str | None
    """The file's text; of CONFLICT and UNKNOWN the text for the author to resolve. None where the file is not there."""


def outcome(current: str | None, base: str | None, new: str | None) -> Outcome:
    """Decide a file's fate by the project's text, the text that aion-lambda shipped to it, and the one that it ships now.

    None is a file that is not there; no `base` says that nothing is recorded. Runs git for a merge, and reports a
    conflict where git is not installed.
    """
    if new is None and current is None:
        return Outcome(Fate.CURRENT, None)
    if new is None:
        return Outcome(Fate.REMOVED, None) if current == base else Outcome(Fate.ORPHANED, current)
    if current is None:
        return Outcome(Fate.ADDED, new) if base is None else Outcome(Fate.LEFT_OUT, None)
    if current == new:
        return Outcome(Fate.CURRENT, current)
    if base is None:
        return Outcome(Fate.UNKNOWN, new)
    if current == base:
        return Outcome(Fate.REPLACED, new)
    if base == new:
        return Outcome(Fate.KEPT, current)
    merged = _merged(current, base, new)
    if merged is None:
        return Outcome(Fate.CONFLICT, new)
    text, conflicts = merged
    return Outcome(Fate.CONFLICT if conflicts else Fate.MERGED, text)


def _merged(current: str, base: str, new: str) -> tuple[str, bool] | None:
    """Return the three-way merge, and whether it has conflicts; None where git cannot make one."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("yours", "base", "new")]
        for file, text in zip(files, (current, base, new), strict=True):
            file.write_text(text, encoding="utf-8", newline="\n")
        labels = ["-L", "yours", "-L", "as it was shipped", "-L", "as it is shipped now"]
        command = ["git", "merge-file", "--stdout", *labels, *map(str, files)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")  # noqa: S603
        except FileNotFoundError:
            return None
    # It exits with the number of conflicts, up to 127; above it has failed.
    return (ran.stdout, ran.returncode > 0) if 0 <= ran.returncode <= 127 else None
