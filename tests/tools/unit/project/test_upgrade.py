"""Upgrades of projects with and without the author's edits."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from aion_tools.project import ProjectError, base
from aion_tools.project.files import with_block
from aion_tools.project.upgrade import FileOutcome, MergeResult, Upgrade, apply, find_project, merge_result, plan
from aion_tools.shipped import shipped

RULE = "# >>> aion >>>\nbuild-%:\n\t@aion build $*\n# <<< aion <<<\n"
TEMPLATE = "".join(f"line {number}\n" for number in range(20))
OLD = {"template.yaml": TEMPLATE, "infra/state.yaml": "state: 1\n", "infra/old.yaml": "old: 1\n", base.RULE: RULE}
NEW = {
    "template.yaml": TEMPLATE.replace("line 18", "line eighteen"),
    "infra/state.yaml": "state: 2\n",
    "infra/new.yaml": "new: 1\n",
    base.RULE: RULE.replace("@aion", "@$(AION)"),
}
VERSION = "0.2.0"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Project created by aion-lambda 0.1.0."""
    for path, text in OLD.items():
        if path != base.RULE:
            base.put(tmp_path / path, text)
    base.put(tmp_path / "Makefile", with_block("all:\n\techo all\n", RULE))
    base.put(tmp_path / "agent.py", "graph = 1\n")
    base.put(tmp_path / "samconfig.toml", "version = 0.1\n")
    base.write(tmp_path, OLD, "0.1.0")
    return tmp_path


def planned(project: Path, new: Mapping[str, str] = NEW, version: str = VERSION) -> Upgrade:
    return plan(project, new=new, version=version)


def upgraded(project: Path) -> dict[str, FileOutcome]:
    upgrade = planned(project)
    apply(upgrade, version=VERSION)
    return {change.path: change.outcome for change in upgrade.changes}


def texts(project: Path) -> dict[str, str]:
    files = (file for file in project.rglob("*") if file.is_file() and ".shipped" not in file.parts)
    return {file.relative_to(project).as_posix(): file.read_text() for file in files}


def test_upgrade_of_unedited_project_replaces_all_files(project: Path) -> None:
    assert upgraded(project) == {
        "template.yaml": FileOutcome.REPLACED,
        "infra/state.yaml": FileOutcome.REPLACED,
        "infra/new.yaml": FileOutcome.ADDED,
        "infra/old.yaml": FileOutcome.REMOVED,
        "Makefile": FileOutcome.REPLACED,
    }
    makefile = with_block("all:\n\techo all\n", NEW[base.RULE])
    own = {"Makefile": makefile, "agent.py": "graph = 1\n", "samconfig.toml": "version = 0.1\n"}
    assert texts(project) == {**{path: text for path, text in NEW.items() if path != base.RULE}, **own}


def test_repeated_upgrade_changes_nothing(project: Path) -> None:
    upgraded(project)
    assert not planned(project).is_needed
    assert base.read(project) == base.Base(NEW, VERSION)


def test_upgrade_merges_edits(project: Path) -> None:
    edited = TEMPLATE.replace("line 2\n", "mine 2\n")
    base.put(project / "template.yaml", edited)
    assert upgraded(project)["template.yaml"] is FileOutcome.MERGED
    assert (project / "template.yaml").read_text() == edited.replace("line 18", "line eighteen")
    # Another upgrade to the same version keeps the merged file.
    assert {change.path: change.outcome for change in planned(project).changes}["template.yaml"] is FileOutcome.KEPT


def test_upgrade_writes_conflicts_into_file_beside_original(project: Path) -> None:
    edited = TEMPLATE.replace("line 18", "mine 18")
    base.put(project / "template.yaml", edited)
    assert upgraded(project)["template.yaml"] is FileOutcome.CONFLICT
    assert (project / "template.yaml").read_text() == edited
    assert "=======\nline eighteen\n" in (project / "template.yaml.new").read_text()
    assert planned(project).waiting == ("template.yaml.new",)
    assert planned(project).is_needed


def test_project_needs_no_upgrade_after_conflict_is_resolved(project: Path) -> None:
    base.put(project / "template.yaml", TEMPLATE.replace("line 18", "mine 18"))
    upgraded(project)
    (project / "template.yaml.new").unlink()
    base.put(project / "template.yaml", NEW["template.yaml"].replace("line eighteen", "both 18"))
    assert not planned(project).is_needed
    later = {**NEW, "template.yaml": NEW["template.yaml"].replace("line 1\n", "line one\n")}
    [change] = [each for each in planned(project, later, "0.3.0").changes if each.path == "template.yaml"]
    assert (change.outcome, change.after) == (
        FileOutcome.MERGED,
        later["template.yaml"].replace("line eighteen", "both 18"),
    )


def test_upgrade_during_unresolved_conflict_does_not_change_merge_base(project: Path) -> None:
    base.put(project / "template.yaml", TEMPLATE.replace("line 18", "mine 18"))
    upgraded(project)
    apply(planned(project, {**NEW, "template.yaml": "another\n"}, "0.3.0"), version="0.3.0")
    assert base.read(project).files["template.yaml"] == NEW["template.yaml"]
    assert base.read(project).version == "0.3.0"


def test_upgrade_without_copy_of_shipped_file_keeps_authors_file(project: Path) -> None:
    for file in sorted((project / base.FOLDER).rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert upgraded(project)["template.yaml"] is FileOutcome.UNKNOWN
    assert (project / "template.yaml").read_text() == TEMPLATE
    assert (project / "template.yaml.new").read_text() == NEW["template.yaml"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("VERSION", b"", "its VERSION is not a version"),
        ("VERSION", b"<<<<<<< ours", "its VERSION is not a version"),
        ("VERSION", b"\xff\xfe", "a file in it is not UTF-8"),
        ("template.yaml", b"\xff\xfe", "a file in it is not UTF-8"),
        ("", b"", "it is a file"),
    ],
)
def test_upgrade_with_unreadable_copies_of_shipped_files_says_why(
    project: Path, name: str, content: bytes, why: str
) -> None:
    if not name:
        shutil.rmtree(project / base.FOLDER)
    (project / base.FOLDER / name).write_bytes(content)
    before = texts(project)
    with pytest.raises(ProjectError, match=rf"{why}\. Restore it \(git checkout -- infra/\.shipped\), or remove it"):
        planned(project)
    assert texts(project) == before


def test_upgrade_does_not_restore_file_removed_by_author(project: Path) -> None:
    (project / "infra/state.yaml").unlink()
    (project / "Makefile").write_text("all:\n\techo all\n")
    outcomes = upgraded(project)
    assert (outcomes["infra/state.yaml"], outcomes["Makefile"]) == (FileOutcome.LEFT_OUT, FileOutcome.LEFT_OUT)
    assert not (project / "infra/state.yaml").exists()
    assert (project / "Makefile").read_text() == "all:\n\techo all\n"


def test_upgrade_keeps_authors_build_rule(project: Path) -> None:
    own = "build-%:\n\tcp -r . $(ARTIFACTS_DIR)\n"
    (project / "Makefile").write_text(own)
    assert upgraded(project)["Makefile"] is FileOutcome.OWN
    assert (project / "Makefile").read_text() == own


def test_windows_line_endings_do_not_count_as_edit(project: Path) -> None:
    (project / "template.yaml").write_text(TEMPLATE, newline="\r\n")
    assert upgraded(project)["template.yaml"] is FileOutcome.REPLACED


def test_upgrade_by_older_installation_is_refused(project: Path) -> None:
    with pytest.raises(ProjectError, match=r"from aion-lambda 0\.1\.0, but 0\.0\.9 is installed"):
        planned(project, version="0.0.9")


def test_upgrade_diff_names_old_and_new_file(project: Path) -> None:
    diffs = {change.path: change.diff for change in planned(project).changes}
    assert (
        diffs["infra/state.yaml"]
        == "--- a/infra/state.yaml\n+++ b/infra/state.yaml\n@@ -1 +1 @@\n-state: 1\n+state: 2\n"
    )
    assert diffs["infra/new.yaml"].startswith("--- /dev/null\n+++ b/infra/new.yaml\n")
    assert diffs["infra/old.yaml"].startswith("--- a/infra/old.yaml\n+++ /dev/null\n")


def test_project_is_found_from_subfolder(project: Path) -> None:
    assert find_project(project / "infra") == project


def test_upgrade_refuses_aion_repository_and_folder_without_project(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="own repository"):
        find_project(shipped())
    with pytest.raises(ProjectError, match="Run `aion init`"):
        find_project(tmp_path)


OLD_TEXT = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
NEW_TEXT = OLD_TEXT.replace("seven", "SEVEN")
EDITED_TEXT = OLD_TEXT.replace("one", "mine")


@pytest.mark.parametrize(
    ("current", "base", "new", "expected"),
    [
        (NEW_TEXT, OLD_TEXT, NEW_TEXT, MergeResult(FileOutcome.CURRENT, NEW_TEXT)),
        (NEW_TEXT, None, NEW_TEXT, MergeResult(FileOutcome.CURRENT, NEW_TEXT)),
        (OLD_TEXT, OLD_TEXT, NEW_TEXT, MergeResult(FileOutcome.REPLACED, NEW_TEXT)),
        (EDITED_TEXT, OLD_TEXT, OLD_TEXT, MergeResult(FileOutcome.KEPT, EDITED_TEXT)),
        (EDITED_TEXT, OLD_TEXT, NEW_TEXT, MergeResult(FileOutcome.MERGED, NEW_TEXT.replace("one", "mine"))),
        (EDITED_TEXT, None, NEW_TEXT, MergeResult(FileOutcome.UNKNOWN, NEW_TEXT)),
        (None, None, NEW_TEXT, MergeResult(FileOutcome.ADDED, NEW_TEXT)),
        (None, OLD_TEXT, NEW_TEXT, MergeResult(FileOutcome.LEFT_OUT, None)),
        (OLD_TEXT, OLD_TEXT, None, MergeResult(FileOutcome.REMOVED, None)),
        (EDITED_TEXT, OLD_TEXT, None, MergeResult(FileOutcome.ORPHANED, EDITED_TEXT)),
        (None, OLD_TEXT, None, MergeResult(FileOutcome.CURRENT, None)),
    ],
)
def test_three_way_merge_returns_expected_text_and_outcome(
    current: str | None, base: str | None, new: str | None, expected: MergeResult
) -> None:
    assert merge_result(current, base, new) == expected


def test_merge_conflict_contains_both_texts() -> None:
    decided = merge_result(OLD_TEXT.replace("seven", "mine"), OLD_TEXT, NEW_TEXT)
    assert decided.outcome is FileOutcome.CONFLICT
    assert decided.text is not None
    assert "<<<<<<< yours\nmine\n=======\nSEVEN\n>>>>>>> as shipped now\n" in decided.text


def test_merge_without_git_reports_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shutil.which("git")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert merge_result(EDITED_TEXT, OLD_TEXT, NEW_TEXT) == MergeResult(FileOutcome.CONFLICT, NEW_TEXT)
