"""`aion stacks` and `aion eject`, and `aion build` in a project that nests the stacks; the example of docs/deploy.md."""

import json
import shlex
from pathlib import Path

import pytest

from aion_core import __version__
from aion_tools.stack.stack import LocalStack
from aion_tools.template import stacks
from aion_tools.template.reader import FUNCTION
from tests.support import operating
from tests.support.operating import RunCommand, refusal
from tests.support.pages import blocks

PAGE = "docs/deploy.md"
[EXAMPLE] = [block.code for block in blocks(PAGE, "yaml") if "AWS::Serverless::Application" in block.code]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Return a function that runs `aion` in a project with the template of docs/deploy.md."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "template.yaml").write_text(EXAMPLE)
    return operating.runs({})


def test_stacks_command_writes_stacks_of_installed_version(run: RunCommand, tmp_path: Path) -> None:
    ran = run("stacks")
    assert (ran.exit_code, ran.output) == (0, f".aion/stacks has the stacks of aion-lambda {__version__}.\n")
    stacks.check(tmp_path)


def test_stacks_command_names_build_of_images(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text("aion: {image: true, agents: {mine: {path: agent.py}}}")
    assert run("stacks").output.endswith("aion.yaml has `image: true`: run `aion build` before `sam build`.\n")


def test_build_of_zips_removes_folders_of_images(run: RunCommand, tmp_path: Path) -> None:
    """The last argument stops the build after the stacks."""
    folder = tmp_path / ".aion" / "image" / "ApiFunction"
    folder.mkdir(parents=True)
    (tmp_path / "aion.yaml").write_text("aion: {image: true, agents: {mine: {path: agent.py}}}")
    run("build", "Nobody")
    assert folder.is_dir()
    (tmp_path / "aion.yaml").unlink()
    run("build", "Nobody")
    assert not folder.parent.exists()
    stacks.check(tmp_path)


@pytest.mark.parametrize("command", ["stacks", "eject"])
def test_stacks_commands_need_template_that_nests_stacks(run: RunCommand, tmp_path: Path, command: str) -> None:
    (tmp_path / "template.yaml").write_text("Resources: {}\n")
    assert "template.yaml in this folder nests no stack of .aion/stacks" in refusal(run(command))
    (tmp_path / "template.yaml").unlink()
    assert "Run `aion init` to create it" in refusal(run(command))
    assert not any(tmp_path.iterdir())


def test_commands_of_deploy_guide_list_and_eject_stacks(run: RunCommand, tmp_path: Path) -> None:
    [code] = [block.code for block in blocks(PAGE, "sh") if "aion eject" in block.code]
    listed, ejected = (run(*shlex.split(line, comments=True)[1:]) for line in code.splitlines())
    assert (listed.exit_code, ejected.exit_code) == (0, 0), ejected.output
    assert [line.split()[0] for line in listed.output.splitlines()] == list(stacks.STACKS)
    assert "Edit stacks/operations.yaml and commit it." in ejected.output
    assert "operations   alarms (in stacks/)\n" in run("eject").output
    assert "with operations.yaml of stacks/.\n" in run("stacks").output
    assert "stacks/operations.yaml exists already" in refusal(run("eject", "operations"))
    assert "There is no stack 'alarms'" in refusal(run("eject", "alarms"))


def test_build_for_sam_refuses_stacks_of_another_version(run: RunCommand, tmp_path: Path) -> None:
    told = refusal(run("build", "SweepFunction", "--to", "out"))
    assert ".aion/stacks has no stacks, and aion-lambda" in told
    assert "Run `aion stacks`, then `sam build` again" in told
    run("stacks")
    (tmp_path / stacks.FOLDER / "version").write_text("0.0.9\n")
    assert "are from aion-lambda 0.0.9" in refusal(run("build", "SweepFunction", "--to", "out"))
    assert not (tmp_path / "out").exists()


def test_emulated_aws_has_tables_of_project_and_package(tmp_path: Path) -> None:
    # The emulator does not know this property, and leaves it out.
    files = "  Files: {Type: 'AWS::S3::Bucket', Properties: {CorsConfiguration: {CorsRules: []}}}\n"
    (tmp_path / "template.yaml").write_text(EXAMPLE + files)
    with LocalStack.start(tmp_path / "template.yaml") as stack:
        tables = sorted(stack.client("dynamodb").list_tables()["TableNames"])
        assert tables == ["local-Aion-State-Table", "local-Notes"]
        buckets = [each["Name"] for each in stack.client("s3").list_buckets()["Buckets"]]
        assert stack.physical_id("Files") in buckets
        assert stack.environment("TaskFunction")["AION_TABLE"] == tables[0]
        assert json.loads(stack.environment("TaskFunction")["AION_AGENT_ENVIRONMENT"]) == {"NOTES_TABLE": tables[1]}
        assert len(stack.pollers({name: lambda *_: None for name in stack.template.resources(FUNCTION)})) == 3
