"""Fates of a file in an upgrade, by what the project has, what it was shipped and what is shipped now."""

import shutil

import pytest

from aion_core.project.upgrade import Fate, Outcome, outcome

OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
NEW = OLD.replace("seven", "SEVEN")
EDITED = OLD.replace("one", "mine")


@pytest.mark.parametrize(
    ("current", "base", "new", "expected"),
    [
        (NEW, OLD, NEW, Outcome(Fate.CURRENT, NEW)),
        (NEW, None, NEW, Outcome(Fate.CURRENT, NEW)),
        (OLD, OLD, NEW, Outcome(Fate.REPLACED, NEW)),
        (EDITED, OLD, OLD, Outcome(Fate.KEPT, EDITED)),
        (EDITED, OLD, NEW, Outcome(Fate.MERGED, NEW.replace("one", "mine"))),
        (EDITED, None, NEW, Outcome(Fate.UNKNOWN, NEW)),
        (None, None, NEW, Outcome(Fate.ADDED, NEW)),
        (None, OLD, NEW, Outcome(Fate.LEFT_OUT, None)),
        (OLD, OLD, None, Outcome(Fate.REMOVED, None)),
        (EDITED, OLD, None, Outcome(Fate.ORPHANED, EDITED)),
        (None, OLD, None, Outcome(Fate.CURRENT, None)),
    ],
)
def test_outcome_follows_from_three_texts(
    current: str | None, base: str | None, new: str | None, expected: Outcome
) -> None:
    assert outcome(current, base, new) == expected


def test_conflict_shows_both_sides() -> None:
    decided = outcome(OLD.replace("seven", "mine"), OLD, NEW)
    assert decided.fate is Fate.CONFLICT
    assert decided.text is not None
    assert "<<<<<<< yours\nmine\n=======\nSEVEN\n>>>>>>> as it is shipped now\n" in decided.text


def test_edits_without_git_are_left_to_author(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("git")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert outcome(EDITED, OLD, NEW) == Outcome(Fate.CONFLICT, NEW)
