"""Stack that `aion deploy` has created in the emulated AWS, with its functions in containers."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

from aion_tools.deploy import sam_install
from aion_tools.stack.stack import SETTINGS
from tests.support.containers.emulated_aws import emulated_aws, function_url
from tests.support.containers.engine import DockerEngine
from tests.tools.e2e.sam_project import BUILDS, SamProject

STACK = "aion-dev"
TIMEOUT = 180


@dataclass(eq=False)
class Deployment:
    """Deployed stack. Its entry point is the Function URL, because ministack serves no REST API with method ANY."""

    engine: DockerEngine
    project: SamProject
    printed: str
    """Output of `aion deploy`."""

    @property
    def url(self) -> str:
        return function_url(self.project.endpoint)

    def client(self, service: str) -> Any:
        """Return the boto3 client of an emulated AWS service."""
        return self.project.client(service)

    def physical_id(self, logical_id: str) -> str:
        """Return the name of a function."""
        found = self.client("cloudformation").describe_stack_resource(
            StackName=self.project.application(STACK), LogicalResourceId=logical_id
        )
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def environment(self, function: str) -> dict[str, str]:
        """Return the function's environment variables: those in the template, and those that Lambda sets."""
        found = self.client("lambda").get_function_configuration(FunctionName=self.physical_id(function))
        return {**found["Environment"]["Variables"], **SETTINGS}

    def allow_webhooks_on_bridge(self) -> None:
        """Let the functions call webhooks by plain HTTP on the engine's bridge.

        No deployment parameter allows this, because a function on AWS must not do so. The functions accept these
        variables of development because AwsEndpointUrl is a private address.
        """
        allowed = {"AION_PUSH_HTTP": "true", "AION_PUSH_NETWORKS": f"{self.engine.gateway}/32"}
        functions = self.client("lambda")
        for function in ("ApiFunction", "PushFunction"):
            name = self.physical_id(function)
            before = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            functions.update_function_configuration(FunctionName=name, Environment={"Variables": {**before, **allowed}})
            version = functions.publish_version(FunctionName=name)["Version"]
            functions.update_alias(FunctionName=name, Name="live", FunctionVersion=version)

    def sam(self, *arguments: str, typed: str = "") -> None:
        """Run SAM CLI in the project's folder. Raise AssertionError with the output if it fails."""
        path = os.pathsep.join(
            (str(Path(sys.executable).parent), os.environ["PATH"])
        )  # the Makefile finds `aion` on it
        environ = {**self.project.environment(), **sam_install.ENVIRONMENT, "PATH": path}
        command = [str(sam_install.command()), *arguments]
        done = subprocess.run(
            command, cwd=self.project.folder, env=environ, input=typed, stdout=PIPE, stderr=STDOUT, text=True
        )
        assert done.returncode == 0, done.stdout

    def logged(self, function: str, text: str) -> None:
        """Wait until the log group of `api`, `task`, `push` or `sweep` has a line with this text."""
        logs, end = self.client("logs"), time.monotonic() + TIMEOUT
        while True:
            events = logs.filter_log_events(logGroupName=f"/aws/lambda/{STACK}-{function}")["events"]
            lines = [each["message"] for each in events]
            if any(text in line for line in lines):
                return
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.5)


@contextmanager
def deployed(engine: DockerEngine, folder: Path, aion_yaml: str, agents: Mapping[str, str]) -> Iterator[Deployment]:
    """Deploy a project by `aion deploy`, and run its functions until the block ends."""
    with emulated_aws(engine) as endpoint:
        project = SamProject.made(folder / "project", endpoint, agents, aion_yaml=aion_yaml, makefile=BUILDS)
        chosen = {
            "AwsEndpointUrl": endpoint,
            "BaseUrl": function_url(endpoint),
            "FunctionUrlAuth": "AWS_IAM",
            "LeaseSeconds": "5",
        }
        options = [f"--parameter={name}={value}" for name, value in chosen.items()]
        done = project.run("deploy", "--yes", "--stack", STACK, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        yield Deployment(engine, project, done.stdout)
