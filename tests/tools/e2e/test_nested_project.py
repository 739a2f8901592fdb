"""A user's project, whose template nests the package's stack: `sam validate`, `sam build` and `sam deploy`.

`sam deploy` creates the stack on the emulator ministack. The built ApiFunction then runs with its deployed configuration.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_tools.deploy import sam_install
from aion_tools.package.cache import cache
from aion_tools.programs import find_uv, machine_architecture
from aion_tools.project.files import samconfig
from aion_tools.stack.stack import SETTINGS, client_of
from aion_tools.template import stacks
from tests.support import ministack
from tests.support.e2e.rest_api import ARN, CALLER, REGION
from tests.support.e2e.runtime_emulator import emulated
from tests.support.recorded import recorded_event
from tests.support.server import ROOT

TEMPLATE = ROOT / "aion_tools" / "project" / "files" / "every" / "template.yaml"
FUNCTIONS = ("ApiFunction", "TaskFunction", "PushFunction", "SweepFunction")
AION_YAML = "aion: {agents: {notes: {path: 'agent.py:graph', name: Notes, description: Keeps notes.}}}\n"
MAKEFILE = 'build-%:\n\t@aion build $* --to "$(ARTIFACTS_DIR)"\n'
AGENT = '''
"""Keeps notes in the project's own table."""

import os

import boto3
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

TABLE = os.environ["NOTES_TABLE"]


def note(state: MessagesState) -> dict:
    table = boto3.resource("dynamodb").Table(TABLE)
    table.put_item(Item={"id": state["messages"][-1].text})
    return {"messages": [AIMessage(f"{table.scan(Select='COUNT')['Count']} in {TABLE}")]}


graph = StateGraph(MessagesState).add_node("note", note).add_edge(START, "note").compile()
'''
MODEL = "arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-lite-v1:0"
OWN = """
  Notes:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
  NotesPolicy:
    Type: AWS::IAM::ManagedPolicy
    Properties:
      PolicyDocument:
        Version: "2012-10-17"
        Statement: [{ Effect: Allow, Action: ["dynamodb:PutItem", "dynamodb:Scan"], Resource: !GetAtt Notes.Arn }]

Outputs:
"""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the runtime emulator is a program for Linux"),
    pytest.mark.deep,
    # Allow fifteen minutes, because the first test installs SAM if necessary, and builds four packages.
    pytest.mark.timeout(900),
]


@dataclass
class NestedProject:
    """Folder of a project, with the settings of its programs."""

    folder: Path
    endpoint: str = "http://127.0.0.1:9"

    def sam(self, *arguments: str) -> str:
        """Run SAM CLI in the folder; return all its output."""
        programs = [Path(sys.executable).parent, Path(find_uv()).parent]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AION_"))}
        done = subprocess.run(
            [sam_install.installed() / "sam", *arguments],
            cwd=self.folder,
            env={
                **kept,
                **sam_install.ENVIRONMENT,
                **CALLER,
                "AWS_DEFAULT_REGION": REGION,
                "AWS_ENDPOINT_URL": self.endpoint,
                "AION_PACKAGE_CACHE": str(cache()),
                "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def built(self, function: str) -> Path:
        """Return the folder of a built function."""
        return self.folder / ".aws-sam" / "build" / "Aion" / function

    def client(self, service: str) -> Any:
        """Return the boto3 client of an emulated AWS service."""
        return client_of(service, self.endpoint)


def made(folder: Path, architecture: str, endpoint: str = "http://127.0.0.1:9") -> NestedProject:
    """Create a project with a table of its own for its agent. The agent gets the table's name and a policy for it."""
    text = TEMPLATE.read_text().replace("@name@", "my-agent").replace("@architecture@", architecture)
    commented = ("        # AgentEnvironment:", "        # AgentPolicyArns:")
    assert all(text.count(line) == 1 for line in commented)
    for line in commented:
        text = text.replace(line, line.replace("# ", ""))
    # The functions reach the emulated AWS at this address.
    more = f"        AwsEndpointUrl: {endpoint}\n        BedrockModels: {MODEL}\n"
    text = text.replace("        Name: !Ref AWS::StackName\n", f"        Name: !Ref AWS::StackName\n{more}")
    folder.mkdir()
    files = {"agent.py": AGENT, "aion.yaml": AION_YAML, "Makefile": MAKEFILE, "samconfig.toml": samconfig("my-agent")}
    for name, content in {**files, "template.yaml": text.replace("\nOutputs:\n", OWN)}.items():
        (folder / name).write_text(content)
    return NestedProject(folder, endpoint)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NestedProject]:
    """Build and deploy a project by `sam build` and `sam deploy`, with the options of its samconfig.toml."""
    with ministack.serving(ministack.DEPLOYMENT) as endpoint:
        project = made(tmp_path_factory.mktemp("nested") / "my-agent", machine_architecture(), endpoint)
        stacks.write(project.folder)
        project.sam("build")
        project.sam("deploy")
        yield project


@pytest.fixture(scope="module")
def configurations(deployed: NestedProject) -> dict[str, dict[str, Any]]:
    """Return Lambda's configuration of each function, by logical id."""
    functions = deployed.client("lambda").list_functions()["Functions"]
    return {name: each for name in FUNCTIONS for each in functions if f"-{name}-" in each["FunctionName"]}


def test_sam_validates_template_of_project(tmp_path: Path) -> None:
    project = made(tmp_path / "my-agent", "x86_64")
    stacks.write(project.folder)
    assert "is a valid SAM Template" in project.sam("validate", "--lint")
    assert len((project.folder / "template.yaml").read_text().splitlines()) <= 80 + len(OWN.splitlines())


def test_agent_reaches_table_of_projects_template(
    deployed: NestedProject, configurations: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Give the agent the table's name by AgentEnvironment, and its role the policy by AgentPolicyArns."""
    configuration = configurations["ApiFunction"]
    environment = {**configuration["Environment"]["Variables"], **SETTINGS, "AWS_SAM_LOCAL": "true"}
    [table] = json.loads(environment["AION_AGENT_ENVIRONMENT"]).values()
    event = recorded_event("rest_api_v1")
    event["requestContext"]["identity"]["userArn"] = ARN
    event["path"] = "/message:send"
    with emulated(deployed.built("ApiFunction"), configuration["Handler"], environment, tmp_path) as url:
        answer = httpx.post(url, json=event, timeout=120).json()
    body = base64.b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"]
    assert json.loads(body)["task"]["status"]["message"]["parts"] == [{"text": f"1 in {table}"}]
    [item] = deployed.client("dynamodb").scan(TableName=table)["Items"]
    assert item == {"id": {"S": "Grüße"}}
