"""Fates of a file in an upgrade, by what the project has, what it was shipped and what is shipped now."""

import shutil

import pytest

from aion_core.project.upgrade import Fate, MergeResult, merge_result

OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
NEW = OLD.replace("seven", "SEVEN")
EDITED = OLD.replace("one", "mine")


@pytest.mark.parametrize(
    ("current", "base", "new", "expected"),
    [
        (NEW, OLD, NEW, MergeResult(Fate.CURRENT, NEW)),
        (NEW, None, NEW, MergeResult(Fate.CURRENT, NEW)),
        (OLD, OLD, NEW, MergeResult(Fate.REPLACED, NEW)),
        (EDITED, OLD, OLD, MergeResult(Fate.KEPT, EDITED)),
        (EDITED, OLD, NEW, MergeResult(Fate.MERGED, NEW.replace("one", "mine"))),
        (EDITED, None, NEW, MergeResult(Fate.UNKNOWN, NEW)),
        (None, None, NEW, MergeResult(Fate.ADDED, NEW)),
        (None, OLD, NEW, MergeResult(Fate.LEFT_OUT, None)),
        (OLD, OLD, None, MergeResult(Fate.REMOVED, None)),
        (EDITED, OLD, None, MergeResult(Fate.ORPHANED, EDITED)),
        (None, OLD, None, MergeResult(Fate.CURRENT, None)),
    ],
)
def test_outcome_follows_from_three_texts(
    current: str | None, base: str | None, new: str | None, expected: MergeResult
) -> None:
    assert merge_result(current, base, new) == expected


def test_conflict_shows_both_sides() -> None:
    decided = merge_result(OLD.replace("seven", "mine"), OLD, NEW)
    assert decided.fate is Fate.CONFLICT
    assert decided.text is not None
    assert "<<<<<<< yours\nmine\n=======\nSEVEN\n>>>>>>> as it is shipped now\n" in decided.text


def test_edits_without_git_are_left_to_author(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("git")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert merge_result(EDITED, OLD, NEW) == MergeResult(Fate.CONFLICT, NEW)
