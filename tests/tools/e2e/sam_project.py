"""Project of a user, deployed to an emulated AWS by the `aion` commands."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aion_tools import project
from aion_tools.programs import machine_architecture
from aion_tools.shipped import shipped
from aion_tools.stack.stack import client_of
from tests.support.e2e import forked
from tests.support.e2e.rest_api import CALLER, REGION

PROGRAM = Path(sys.executable).with_name("aion")
TIMEOUT = 900
BUILDS = "include infra/functions.mk\n"
COPIES = 'build-%:\n\t@echo "$* is built"\n\t@cp agent.py "$(ARTIFACTS_DIR)"\n'
"""Makefile rule without a package, for tests of the stack alone."""
TESTED = {"AwsEndpointUrl": "", "BaseUrl": "", "LeaseSeconds": "30"}
"""Defaults of further parameters, which tests set by flags."""
ORDERS = """
  Orders:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
"""
"""Resource of the project itself, beside the nested stack."""


def project_template() -> str:
    """Return the template.yaml of a project for this machine's processor, with a resource and further parameters."""
    declared = "".join(f'  {name}: {{ Type: String, Default: "{value}" }}\n' for name, value in TESTED.items())
    passed = "".join(f"        {name}: !Ref {name}\n" for name in TESTED)
    text = (Path(project.__file__).with_name("files") / "every" / "template.yaml").read_text()
    for place, added in (("\nConditions:", declared), ("        # Your resources", passed), ("\nOutputs:", ORDERS)):
        assert text.count(place) == 1
        text = text.replace(place, f"{added}{place}")
    return text.replace("@architecture@", machine_architecture()).replace("@name@", "Tested")


@dataclass
class SamProject:
    """Folder of a project, and the endpoint of the emulated AWS."""

    folder: Path
    endpoint: str
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def made(
        cls,
        folder: Path,
        endpoint: str,
        agents: Mapping[str, str],
        *,
        aion_yaml: str,
        makefile: str = COPIES,
        nests: bool = True,
    ) -> "SamProject":
        """Create a project: a template.yaml that nests the shipped one, aion.yaml and the files of its agents.

        With `nests=False`, the template.yaml is the shipped one, as in a clone of the repository.
        """
        (folder / "infra").mkdir(parents=True)
        for file in (shipped() / "infra").iterdir():
            if file.suffix == ".mk" or (file.suffix == ".yaml" and not nests):
                shutil.copy(file, folder / "infra")
        shutil.copy(shipped() / "samconfig.toml", folder)
        template = project_template() if nests else (shipped() / "template.yaml").read_text()
        written = {**agents, "aion.yaml": aion_yaml, "Makefile": makefile, "template.yaml": template}
        for name, text in written.items():
            (folder / name).write_text(text)
        return cls(folder, endpoint)

    def client(self, service: str) -> Any:
        """Return the boto3 client of an emulated AWS service."""
        return client_of(service, self.endpoint)

    def run(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        """Run an `aion` command in the project's folder, without a terminal."""
        return forked.run("aion_tools.cli", *arguments, cwd=self.folder, env=self.environment(environ), timeout=TIMEOUT)

    def deployed(self, stack: str, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run `aion deploy` without its first reply. Raise AssertionError with the output if it fails."""
        done = self.run("deploy", "--yes", "--no-reply", "--stack", stack, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def outputs(self, stack: str) -> dict[str, str]:
        """Return the stack's outputs by name."""
        (found,) = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]}

    def application(self, stack: str) -> str:
        """Return the id of the stack's nested stack with the functions."""
        cloudformation = self.client("cloudformation")
        found = cloudformation.describe_stack_resource(StackName=stack, LogicalResourceId="Aion")
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def parameters(self, stack: str) -> dict[str, str]:
        """Return the stack's parameters by name."""
        (found,) = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {each["ParameterKey"]: each["ParameterValue"] for each in found["Parameters"]}

    def status(self, stack: str) -> str:
        """Return the stack's status, or "" if the stack does not exist."""
        cloudformation = self.client("cloudformation")
        try:
            (found,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
        except cloudformation.exceptions.ClientError:
            return ""
        return str(found["StackStatus"])

    def typed(self, *arguments: str, answers: list[str], **environ: str) -> tuple[int, str]:
        """Run `aion` in a pseudo-terminal and type the answers; return exit code and output."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment(environ),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        # Write all answers at once: the terminal buffers each line until the command asks for it.
        os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
        shown, end = b"", time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if not select.select([ours], [], [], 1)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the process has closed the terminal
                break
        os.close(ours)
        return process.wait(timeout=60), shown.decode().replace("\r\n", "\n")

    def process(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start `aion` without a terminal; the test can read its output while it runs."""
        environ = {**self.environment(), "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=self.folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self, more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Return the environment variables for a program that uses the emulated AWS."""
        # Leave out the AWS settings of this machine.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AION_"))}
        settings = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_CONFIG_FILE": "/nowhere",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            # SAM asks for the state of a stack every 5 s by default.
            "SAM_CLI_POLL_DELAY": "0.2",
            **CALLER,
        }
        given = {**kept, **settings, **self.environ, **more}
        return {name: value for name, value in given.items() if value}
