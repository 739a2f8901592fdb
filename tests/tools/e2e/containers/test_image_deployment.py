"""`aion deploy` and `aion destroy` of images, to an emulated AWS that runs the functions in containers."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from aion_tools.package.functions import AGENT_FUNCTIONS, FUNCTION_EXTRAS
from tests.support import ministack
from tests.support.containers.emulated_aws import emulated_aws, function_url
from tests.support.containers.engine import DockerEngine
from tests.support.containers.registry import engine_without_registry
from tests.support.e2e.rest_api import REGION
from tests.support.server import ROOT
from tests.tools.e2e.sam_project import BUILDS, PROGRAM, SamProject

pytestmark = [
    pytest.mark.deep,
    # Allow half an hour, because the first test may build Lambda's image, install SAM, and build four packages.
    pytest.mark.timeout(1800),
]

STACK = "images-dev"
AGENTS = {"agent.py": (ROOT / "examples" / "echo" / "agent.py").read_text()}
AION_YAML = "aion: {image: true, agents: {echo: {path: agent.py:graph}}}"
REGISTRY = f"{ministack.ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/"


@pytest.fixture(scope="module")
def project(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SamProject]:
    folder = tmp_path_factory.mktemp("deployed") / "project"
    with emulated_aws(engine) as endpoint, engine_without_registry(engine) as docker:
        project = SamProject.made(folder, endpoint, AGENTS, aion_yaml=AION_YAML, makefile=BUILDS)
        project.environ["DOCKER_HOST"] = docker
        try:
            yield project
        finally:
            tagged = engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
            ours = [
                name
                for name in tagged
                if name.startswith((REGISTRY, *(f"{each.lower()}:" for each in AGENT_FUNCTIONS)))
            ]
            engine.docker("rmi", "--force", *ours)


def aion(project: SamProject, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run an `aion` command on the project, for as long as docker needs."""
    return subprocess.run(
        [PROGRAM, *arguments], cwd=project.folder, env=project.environment(), capture_output=True, text=True
    )


def options(project: SamProject) -> list[str]:
    chosen = {
        "AwsEndpointUrl": project.endpoint,
        "BaseUrl": function_url(project.endpoint),
        "FunctionUrlAuth": "AWS_IAM",
    }
    return [f"--parameter={name}={value}" for name, value in chosen.items()]


def configurations(project: SamProject) -> dict[str, Any]:
    """Return Lambda's answer about each function."""
    stack = project.application(STACK)
    found = project.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    names = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found}
    return {each: project.client("lambda").get_function(FunctionName=names[each]) for each in FUNCTION_EXTRAS}


def companions(project: SamProject) -> list[str]:
    """Return the names of the existing stacks with repositories."""
    found = project.client("cloudformation").list_stacks()["StackSummaries"]
    names = [each["StackName"] for each in found if each["StackStatus"] != "DELETE_COMPLETE"]
    return [name for name in names if name.endswith("-CompanionStack")]


def test_deployed_images_answer_and_are_destroyed(project: SamProject) -> None:
    """One test, because each step needs the one before."""
    done = aion(project, "deploy", "--yes", "--stack", STACK, *options(project))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok       first reply: echo answered, streamed, after " in done.stdout

    found = configurations(project)
    for name, each in found.items():
        is_image = name in AGENT_FUNCTIONS
        assert each["Configuration"]["PackageType"] == ("Image" if is_image else "Zip")
        assert is_image == each["Code"].get("ImageUri", "").startswith(REGISTRY)
    assert len(companions(project)) == 1
    assert len(project.client("ecr").describe_repositories()["repositories"]) == len(AGENT_FUNCTIONS)

    again = aion(project, "deploy", "--yes", "--no-reply", "--stack", STACK, *options(project))
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"Stack {STACK} is up to date" in again.stdout

    destroyed = aion(project, "destroy", "--yes", "--stack", STACK, "--data")
    assert destroyed.returncode == 0, destroyed.stdout + destroyed.stderr
    assert companions(project) == []
    assert project.client("ecr").describe_repositories()["repositories"] == []
