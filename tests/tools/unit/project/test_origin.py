"""Origin of the installed aion-lambda (PEP 610), and a new project's requirement for aion-lambda."""

import json
import tomllib

import pytest
from packaging.requirements import Requirement

from aion_core import __version__
from aion_tools.project.origin import Origin, origin, requirement, versions

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("recorded", "source", "direct"),
    [
        (
            {"url": "file:///dist/aion_lambda-1-py3-none-any.whl", "archive_info": {}},
            {"path": "/dist/aion_lambda-1-py3-none-any.whl"},
            "@ file:///dist/aion_lambda-1-py3-none-any.whl",
        ),
        ({"url": "file:///my%20work/aion", "dir_info": {}}, {"path": "/my work/aion"}, "@ file:///my%20work/aion"),
        (
            {"url": "file:///work/aion", "dir_info": {"editable": True}},
            {"path": "/work/aion", "editable": True},
            "@ file:///work/aion",
        ),
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
    ids=["wheel", "folder", "editable", "url", "git"],
)
def test_aion_installed_from_url_becomes_uv_source_of_project(
    recorded: dict[str, object], source: dict[str, object], direct: str
) -> None:
    found = origin(json.dumps(recorded))
    assert tomllib.loads(f"source = {found.source}")["source"] == source
    assert found.direct == direct
    assert Requirement(f"aion-lambda[langgraph] {found.direct}").url


def test_aion_installed_from_package_index_needs_no_uv_source() -> None:
    assert origin("") == Origin()


def test_origin_of_installed_aion_is_known() -> None:
    assert origin().place


@pytest.mark.parametrize(
    ("version", "accepted"), [("0.1.0", ">=0.1.0,<0.2"), ("0.9.3", ">=0.9.3,<0.10"), ("2.4.1", ">=2.4.1,<3")]
)
def test_generated_version_range_excludes_next_breaking_version(version: str, accepted: str) -> None:
    assert versions(version) == accepted


def test_generated_requirement_accepts_installed_version() -> None:
    read = Requirement(requirement("adk"))
    assert (read.name, read.extras, __version__ in read.specifier) == ("aion-lambda", {"adk"}, True)
    assert not Requirement(requirement("")).extras
