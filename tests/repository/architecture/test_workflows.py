"""Workflows of GitHub: they call targets of the Makefile, have few permissions, and publish without a token."""

import re
from typing import Any

import pytest
import yaml

from tests.support.server import ROOT

WORKFLOWS = {path.name: path for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PRIVILEGED = {("docs.yml", "deploy"): {"pages", "id-token"}, ("release.yml", "publish"): {"id-token"}}
"""Jobs that may write something, and what."""
TESTS = [file for folder in ("tests", "examples") for file in (ROOT / folder).rglob("test_*.py")]


def covers(part: str, folder: tuple[str, ...]) -> bool:
    """Return True if pytest runs the tests of the folder with the path `part`."""
    return folder[: part.count("/") + 1] == tuple(part.split("/"))


def jobs(name: str) -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))
    assert document["permissions"] == {"contents": "read"}
    found: dict[str, dict[str, Any]] = document["jobs"]
    return found


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in jobs(name).values() for step in job["steps"]]


def test_workflows_test_build_document_and_release() -> None:
    assert set(WORKFLOWS) == {"build.yml", "deep.yml", "docs.yml", "newest.yml", "release.yml", "test.yml"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow_calls_existing_targets_of_makefile(name: str) -> None:
    called = [target for step in steps(name) for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))]
    assert called
    assert set(called) <= TARGETS


def test_deep_workflow_runs_each_folder_of_tests() -> None:
    parts = " ".join(jobs("deep.yml")["test"]["strategy"]["matrix"]["part"]).replace(" --ignore ", " ").split()
    assert [part for part in parts if not (ROOT / part).exists()] == []
    folders = {file.relative_to(ROOT).parts[: 3 if file.is_relative_to(ROOT / "tests") else 1] for file in TESTS}
    assert {folder for folder in folders if not any(covers(part, folder) for part in parts)} == set()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_only_publishing_jobs_of_workflow_may_write(name: str) -> None:
    for title, job in jobs(name).items():
        written = {scope for scope, access in job.get("permissions", {}).items() if access == "write"}
        assert written == PRIVILEGED.get((name, title), set())
        assert job["timeout-minutes"] <= 60


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_of_others_are_pinned_by_commit(name: str) -> None:
    for action in (step["uses"] for step in steps(name) if "uses" in step):
        assert re.fullmatch(r"actions/[\w-]+@v\d+|[\w-]+/[\w-]+@[0-9a-f]{40}", action), action


def test_workflows_use_no_secrets() -> None:
    assert [name for name, path in WORKFLOWS.items() if "secrets." in path.read_text(encoding="utf-8")] == []
