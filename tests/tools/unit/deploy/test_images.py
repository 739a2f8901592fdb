"""Container images of a deployment: what SAM CLI is told, and SnapStart. The container tests deploy and destroy images."""

from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_tools.deploy import images
from aion_tools.deploy.errors import DeployError
from aion_tools.deploy.sam import Sam
from aion_tools.deploy.samconfig import SamConfig

AION_YAML = "aion: {image: true, agents: {mine: {path: agent.py}}}"
RESOLVE = "--resolve-image-repos"


@pytest.fixture
def sam(tmp_path: Path) -> Sam:
    """Return a program in place of SAM CLI, which writes its arguments into a file."""
    program = tmp_path / "sam"
    program.write_text('#!/bin/sh\necho "$@" >> arguments\necho "No changes to deploy"\n')
    program.chmod(0o755)
    return Sam(program, tmp_path, SamConfig.read(tmp_path / "samconfig.toml"))


def arguments(sam: Sam) -> list[str]:
    return (sam.project / "arguments").read_text().split()


@pytest.mark.parametrize(
    ("aion_yaml", "option", "resolves"),
    [
        (AION_YAML, "", True),
        (AION_YAML, "resolve_image_repos = true", False),
        (AION_YAML, 'image_repository = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine"', False),
        (AION_YAML, 'image_repositories = ["Aion/ApiFunction=111122223333.dkr.ecr.us-east-1.amazonaws.com/a"]', False),
        ("aion: {agents: {mine: {path: agent.py}}}", "", False),
    ],
)
def test_deploy_makes_repositories_unless_samconfig_chooses(
    sam: Sam, aion_yaml: str, option: str, resolves: bool
) -> None:
    (sam.project / "aion.yaml").write_text(aion_yaml)
    sam.saved.path.write_text(f"version = 0.1\n[default.deploy.parameters]\n{option}\n")
    saved = SamConfig.read(sam.saved.path)
    assert Sam(sam.program, sam.project, saved).change_set("mine-dev", "us-east-1", {}) == ""
    assert (RESOLVE in arguments(sam)) == resolves


def test_build_writes_images_before_sam_reads_them(sam: Sam) -> None:
    """`aion build` fails here, because the project has no agent: SAM isn't called."""
    (sam.project / "aion.yaml").write_text(AION_YAML)
    with pytest.raises(DeployError) as failed:
        sam.build(print)
    assert "agent.py" in str(failed.value)
    assert "run `aion deploy` again" in str(failed.value)
    assert not (sam.project / "arguments").exists()


def test_snap_start_is_for_zips(tmp_path: Path) -> None:
    snapped = {"SnapStart": "PublishedVersions"}
    images.check_snap_start(tmp_path, snapped)
    (tmp_path / "aion.yaml").write_text(AION_YAML)
    for without in ({}, {"SnapStart": "None"}):
        images.check_snap_start(tmp_path, without)
    with pytest.raises(ConfigurationError, match=r"SnapStart=PublishedVersions is for zips, .*`image: true`"):
        images.check_snap_start(tmp_path, snapped)
