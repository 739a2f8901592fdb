"""Origin of the installed aion-lambda (PEP 610), and a new project's requirement for aion-lambda."""

import json
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from aion_core import __version__
from aion_tools.project.origin import Origin, origin, recorded, requirement, versions
from tests.support.installed import as_from_index
from tests.support.rows import each_row
from tests.support.server import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("direct_url", "source", "direct"),
    [
        (
            {"url": "https://example.com/aion.whl", "archive_info": {"hashes": {}}},
            {"url": "https://example.com/aion.whl"},
            "@ https://example.com/aion.whl",
        ),
        (
            {
                "url": "https://example.com/aion.git",
                "vcs_info": {"vcs": "git", "commit_id": COMMIT},
                "subdirectory": "py",
            },
            {"git": "https://example.com/aion.git", "rev": COMMIT, "subdirectory": "py"},
            f"@ git+https://example.com/aion.git@{COMMIT}#subdirectory=py",
        ),
    ],
    ids=["url", "git"],
)
def test_aion_installed_from_url_becomes_uv_source_of_project(
    direct_url: dict[str, object], source: dict[str, object], direct: str
) -> None:
    found = recorded(json.dumps(direct_url))
    assert tomllib.loads(f"source = {found.source}")["source"] == source
    assert found.direct == direct
    assert Requirement(f"aion-lambda[langgraph] {found.direct}").url


@each_row(
    ("direct_url", "clone"),
    [
        ({"url": "file:///dist/aion_lambda-1-py3-none-any.whl", "archive_info": {}}, ""),
        ({"url": "file:///my%20work/aion", "dir_info": {}}, ""),
        ({"url": "file:///my%20work/aion", "dir_info": {"editable": True}}, "/my work/aion"),
        (None, ""),
    ],
)
def test_aion_installed_from_this_machine_becomes_wheel_in_project(direct_url: dict[str, object], clone: str) -> None:
    found = recorded(json.dumps(direct_url) if direct_url else None, is_local=True)
    assert (found.clone, found.wheel) == (clone, f"vendor/aion_lambda-{__version__}-py3-none-any.whl")
    assert tomllib.loads(f"source = {found.source}")["source"] == {"path": found.wheel}
    assert found.requirement("adk") == f"./{found.wheel}[adk]"


def test_aion_installed_from_package_index_needs_no_uv_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_from_index(tmp_path, monkeypatch)
    assert origin() == Origin()


def test_origin_of_this_installation_is_its_folder() -> None:
    assert origin().clone == str(ROOT)


@pytest.mark.parametrize(
    ("version", "accepted"), [("0.1.0", ">=0.1.0,<0.2"), ("0.9.3", ">=0.9.3,<0.10"), ("2.4.1", ">=2.4.1,<3")]
)
def test_generated_version_range_excludes_next_breaking_version(version: str, accepted: str) -> None:
    assert versions(version) == accepted


def test_generated_requirement_accepts_installed_version() -> None:
    read = Requirement(requirement("adk"))
    assert (read.name, read.extras, __version__ in read.specifier) == ("aion-lambda", {"adk"}, True)
