"""What SAM's own code reads of a project for `sam local`: variables, processors and options. Nothing runs in containers."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aion_core.settings import DEVELOPMENT
from aion_tools.deploy import sam_install
from aion_tools.project.create import create
from aion_tools.project.files import Project
from aion_tools.project.origin import Origin
from aion_tools.sam_local.env_file import PLAIN, write_plain, write_private
from aion_tools.sam_local.packages import prepare
from aion_tools.sam_local.reach import Reach
from aion_tools.sam_local.variables import EMULATOR, in_stack
from aion_tools.stack.stack import SETTINGS, LocalStack
from aion_tools.template import stacks
from aion_tools.template.reader import FUNCTION
from tests.support.server import ROOT

pytestmark = pytest.mark.deep

SAM_API = ROOT / "tests" / "tools" / "e2e" / "sam_api.py"
FUNCTIONS = {"ApiFunction", "TaskFunction", "PushFunction", "SweepFunction"}
REACH = Reach("172.17.0.1", "172.17.0.1", ("172.17.0.0/16",))
OWN = """
  Own:
    Type: AWS::Serverless::Function
    Properties: { Handler: own.handler, Runtime: python3.13, InlineCode: "def handler(*_): pass" }

Outputs:"""
"""A function of the project's author."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my-agent"
    create(folder, Project("my-agent", "langgraph", Origin(), region="us-east-1"))
    template = folder / "template.yaml"
    template.write_text(template.read_text().replace("\nOutputs:", OWN))
    with (folder / "aion.yaml").open("a") as file:
        file.write("  secrets: {OPENAI_API_KEY: openai-key}\n")
    (folder / ".env").write_text("OPENAI_API_KEY=sk-1\n")
    return folder


def read_by_sam(*arguments: str | Path) -> Any:
    command = [sam_install.installed() / "python", "-P", SAM_API, *arguments]
    environ = {**os.environ, **SETTINGS}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_function_of_project_gets_plain_variables(project: Path) -> None:
    file = write_plain(project, project / ".aws-sam" / "build" / "Aion" / "ApiFunction")
    (wanted,) = json.loads(file.read_text()).values()
    functions = read_by_sam("environment", project / "template.yaml", file)
    assert set(functions) == {*FUNCTIONS, "Own"}
    for name in FUNCTIONS:
        environment = functions[name]["environment"]
        # Only the function that answers requests declares AION_AUTH.
        missing = set() if name == "ApiFunction" else {"AION_AUTH"}
        assert {each for each in wanted if environment.get(each) != wanted[each]} == missing
        assert json.loads(environment["AION_LOCAL_ENVIRONMENT"]) == {"OPENAI_API_KEY": "sk-1"}
        assert environment["AWS_SAM_LOCAL"] == "true"
    assert "sk-1" not in str(functions["Own"])


@pytest.mark.parametrize("nests", [True, False], ids=["project", "repository"])
def test_each_development_variable_of_stack_arrives(project: Path, tmp_path: Path, *, nests: bool) -> None:
    template = project / "template.yaml" if nests else ROOT / "template.yaml"
    with LocalStack.start(template) as stack:
        names = stack.template.resources(FUNCTION)
        wanted = {name: in_stack(stack.environment(name), REACH, "http://127.0.0.1:3001", "{}") for name in names}
    write_private(tmp_path / "env.json", wanted)
    functions = read_by_sam("environment", _prepared(stack, tmp_path / "built", "arm64"), tmp_path / "env.json")
    for name in FUNCTIONS:
        environment = functions[name]["environment"]
        assert {each: environment.get(each) for each in DEVELOPMENT} == {
            "AION_STORE": "",
            "AION_LOCAL_ENVIRONMENT": "{}",
            "AION_PUSH_HTTP": "true",
            "AION_PUSH_NETWORKS": "127.0.0.0/8,::1/128,172.17.0.0/16",
            "AION_LOOPBACK_ORIGINS": "true",
            "AION_REVEAL_ERRORS": "true",
            "AION_TRACE": "",
        }
        for each in (
            "AION_TABLE",
            "AION_BUCKET",
            "AION_TASK_QUEUE_URL",
            "AION_BASE_URL",
            "AWS_ENDPOINT_URL",
            *EMULATOR,
        ):
            assert environment[each] == wanted[name][each]
        assert functions[name]["architecture"] == "arm64"
    assert functions.get("Own", {"architecture": "x86_64"})["architecture"] == "x86_64"


def _prepared(stack: LocalStack, folder: Path, architecture: str) -> Path:
    """Copy the stack's templates, and prepare them as `aion sam-local` prepares the built ones; return the outermost."""
    for each in stack.template.all:
        file = folder / os.path.relpath(each.path, stack.template.path.parent)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stacks.source(each.path), file)
    return prepare(folder / "template.yaml", architecture).template


def test_samconfig_options_are_known_to_sam(project: Path) -> None:
    for folder in (project, ROOT):
        found = read_by_sam("options", folder / "samconfig.toml", "start-api", "start-lambda", "invoke")
        assert all(set(options["read"]) <= set(options["known"]) for options in found.values()), folder
        assert {options["read"]["env_vars"] for options in found.values()} == {PLAIN}
        assert {options["read"]["region"] for options in found.values()} == {"us-east-1"}
        warm = [options["read"].get("warm_containers") for options in found.values()]
        assert warm == ["LAZY", "LAZY", None]
