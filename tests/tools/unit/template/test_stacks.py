"""Stacks in a project's `.aion/stacks`, and templates that nest them."""

from pathlib import Path

import pytest

from aion_core import __version__
from aion_tools.deploy.samconfig import SamConfig
from aion_tools.shipped import shipped
from aion_tools.template import stacks
from aion_tools.template.file import load, parsed
from aion_tools.template.reader import FUNCTION, TABLE, Place, Template, TemplateError, project_template
from aion_tools.template.stacks import StacksError

FILE = shipped() / "aion_tools" / "project" / "files" / "every" / "template.yaml"
NEW = FILE.read_text().replace("@name@", "orders").replace("@architecture@", "x86_64")
"""The template of a new project."""
PLACE = Place(account="111122223333", region="eu-west-1", endpoint="http://127.0.0.1:4566", stack_name="orders-dev")
TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Architecture: {Type: String, Default: arm64}
  Retention: {Type: String}
Resources:
  Aion:
    Type: AWS::Serverless::Application
    Properties:
      Location: .aion/stacks/template.yaml
      Parameters:
        Name: !Ref AWS::StackName
        Architecture: !Ref Architecture
        MemorySize: !Ref AWS::NoValue
        AgentEnvironment: !Sub '{"NOTES_TABLE": "${Notes}", "POOL": "POOL_ID"}'
        AgentPolicyArns: !Ref NotesPolicy
  Notes:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
  NotesPolicy: {Type: "AWS::IAM::ManagedPolicy"}
  Pool: {Type: "AWS::Cognito::UserPool"}
Outputs:
  TableName: {Value: !GetAtt Aion.Outputs.TableName}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project whose template nests the stacks; the stacks are not written yet."""
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    return tmp_path


def files(folder: Path) -> dict[str, str]:
    return {file.relative_to(folder).as_posix(): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_written_stacks_take_code_from_project_folder(project: Path) -> None:
    stacks.write(project)
    stacks.check(project)
    folder = project / ".aion" / "stacks"
    assert folder.joinpath("template.yaml").read_text().count("\n    CodeUri: ../..\n") == 1
    for name in ("state", "roles", "operations", "dashboard", "entrypoints"):
        assert (folder / "infra" / f"{name}.yaml").read_text() == (shipped() / "infra" / f"{name}.yaml").read_text()
    assert (folder / stacks.SCHEMA).is_file()
    assert (folder / ".gitignore").read_text() == "*\n"


def test_every_nested_stack_of_the_package_is_written(project: Path) -> None:
    stacks.write(project)
    nested = [each.path for each in Template(project / "template.yaml", PLACE).all]
    assert len(nested) == len(stacks.STACKS) + 1
    assert all(path.is_file() for path in nested)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: (folder / "version").write_text("0.0.1\n"), f"are from aion-lambda 0.0.1, and aion-lambda {__version__} is installed"),
        (lambda folder: (folder / "infra" / "roles.yaml").write_text("Resources: {}"), f"differ from those of aion-lambda {__version__} and of stacks/"),
        (lambda folder: (folder / "infra" / "roles.yaml").unlink(), f"differ from those of aion-lambda {__version__} and of stacks/"),
        (lambda folder: [file.unlink() for file in folder.rglob("*") if file.is_file()], "has no stacks"),
    ],
    ids=["version", "edit", "missing file", "missing"],
)  # fmt: skip
def test_check_refuses_stacks_that_differ_from_the_package(project: Path, change: object, told: str) -> None:
    stacks.write(project)
    assert callable(change)
    change(project / ".aion" / "stacks")
    with pytest.raises(StacksError) as refused:
        stacks.check(project)
    assert told in str(refused.value)
    assert "Run `aion stacks`, then `sam build` again" in str(refused.value)
    stacks.write(project)
    stacks.check(project)


def test_template_is_read_with_and_without_written_stacks(project: Path) -> None:
    unwritten = project_template(project, PLACE)
    assert unwritten.resources(FUNCTION) == ["ApiFunction", "TaskFunction", "PushFunction", "SweepFunction"]
    properties = unwritten.resolved("ApiFunction", "Architectures", "MemorySize", "LoggingConfig")
    assert properties["Architectures"] == ["arm64"]
    assert properties["MemorySize"] == 1024
    assert properties["LoggingConfig"]["LogGroup"] == "/aws/lambda/orders-dev-api"
    environment = unwritten.environment("ApiFunction")
    stacks.write(project)
    assert project_template(project, PLACE).environment("ApiFunction") == environment


def test_template_is_read_from_relative_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks.eject(project, "roles")
    monkeypatch.chdir(project)
    assert project_template(Path(), PLACE).resources(FUNCTION)


def test_outdated_stacks_are_not_read(project: Path) -> None:
    stacks.write(project)
    (project / ".aion" / "stacks" / "template.yaml").write_text("Resources: {}")
    assert project_template(project, PLACE).resources(FUNCTION)


def test_agents_get_names_of_the_projects_own_resources(project: Path) -> None:
    template = project_template(project, PLACE)
    assert template.resources(TABLE) == ["Notes", "Table"]
    for function in ("ApiFunction", "TaskFunction"):
        given = template.environment(function)["AION_AGENT_ENVIRONMENT"]
        assert given == '{"NOTES_TABLE": "orders-dev-Notes", "POOL": "POOL_ID"}'
    assert "AION_AGENT_ENVIRONMENT" not in template.environment("SweepFunction")


def test_variable_with_resource_of_unknown_type_is_left_out(project: Path) -> None:
    file = project / "template.yaml"
    file.write_text(file.read_text().replace("POOL_ID", "${Pool.Arn}"))
    environment = project_template(project, PLACE).environment("ApiFunction")
    assert "AION_AGENT_ENVIRONMENT" not in environment
    assert environment["AION_CONFIG"] == "aion.yaml"


def test_resource_named_as_one_of_the_stacks_is_refused(project: Path) -> None:
    file = project / "template.yaml"
    file.write_text(file.read_text().replace("  Notes:", "  Table:"))
    with pytest.raises(TemplateError, match=r"rename Table in .*template\.yaml"):
        project_template(project, PLACE)


def test_template_of_another_program_is_not_the_projects(tmp_path: Path) -> None:
    assert project_template(tmp_path, PLACE).path == shipped() / "template.yaml"
    (tmp_path / "template.yaml").write_text("Resources: {Other: {Type: 'AWS::SQS::Queue'}}")
    assert project_template(tmp_path, PLACE).path == shipped() / "template.yaml"
    (tmp_path / "template.yaml").write_text("Resources: {ApiFunction: {Type: 'AWS::Serverless::Function'}}")
    assert project_template(tmp_path, PLACE).path == tmp_path / "template.yaml"


# --- The template of a new project ---


def test_template_of_new_project_passes_on_package_defaults(tmp_path: Path) -> None:
    """Keep the defaults equal: a parameter without a value would otherwise change by moving into a project's template."""
    (tmp_path / "template.yaml").write_text(NEW)
    template = project_template(tmp_path, PLACE)
    own, package = (each.document["Parameters"] for each in template.all[:2])
    given = template.document["Resources"]["Aion"]["Properties"]["Parameters"]
    processor = given.pop("Architecture")
    assert processor in package["Architecture"]["AllowedValues"], (
        "no parameter, because a deployment would keep its value"
    )
    assert given == {**{name: {"Ref": name} for name in own}, "Name": {"Ref": "AWS::StackName"}}
    assert {name: each["Default"] for name, each in own.items()} == {name: package[name]["Default"] for name in own}
    assert {name: each["Type"] for name, each in own.items()} == {name: package[name]["Type"] for name in own}
    assert len(NEW.splitlines()) <= 80


def test_template_of_new_project_passes_up_every_output() -> None:
    """Leave out the domain's, whose parameter a project adds itself."""
    assert parsed(NEW)["Outputs"].keys() == load(shipped() / "template.yaml")["Outputs"].keys() - {"DomainTarget"}


def test_template_of_new_project_declares_parameters_of_samconfig() -> None:
    declared = parsed(NEW)["Parameters"].keys()
    for environment in ("default", "dev", "prod"):
        assert SamConfig.read(shipped() / "samconfig.toml", environment).parameters.keys() <= declared


# --- Ejected stacks ---


@pytest.mark.parametrize("name", stacks.STACKS)
def test_ejected_stack_replaces_the_packages(project: Path, name: str) -> None:
    file = stacks.eject(project, name)
    assert file == project / "stacks" / f"{name}.yaml"
    assert file.read_text().startswith(f"# From aion-lambda {__version__} ")
    file.write_text(file.read_text().replace("\nDescription: ", "\nDescription: Ours. "))
    stacks.write(project)
    written = project / ".aion" / "stacks" / stacks.STACKS[name]
    assert written.read_text() == file.read_text()
    template = project_template(project, PLACE)
    assert [each.path for each in template.all if each.document.get("Description", "").startswith("Ours. ")] == [
        written
    ]
    assert template.environment("ApiFunction")["AION_TABLE"] == "orders-dev-Aion-State-Table"


def test_edit_of_ejected_stack_needs_stacks_to_be_written(project: Path) -> None:
    file = stacks.eject(project, "roles")
    stacks.write(project)
    file.write_text(f"{file.read_text()}# An edit.\n")
    with pytest.raises(StacksError, match="Run `aion stacks`"):
        stacks.check(project)


def test_eject_never_overwrites_and_knows_its_stacks(project: Path) -> None:
    stacks.eject(project, "state").write_text("mine")
    before = files(project)
    with pytest.raises(StacksError, match=r"stacks/state\.yaml exists already"):
        stacks.eject(project, "state")
    with pytest.raises(StacksError, match=r"no stack 'sweep'\. The stacks are template, state, roles"):
        stacks.eject(project, "sweep")
    assert files(project) == before
