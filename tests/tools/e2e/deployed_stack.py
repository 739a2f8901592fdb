"""Local deployment: `aion deploy` creates a stack on the emulator ministack, and the built packages serve its functions.

The runtime interface emulator runs the functions; pollers of the tests replace the event source mappings. In
`make test-deep`, `containers/test_deployment.py` does without these stand-ins.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import httpx

from aion_tools.stack import REGION
from aion_tools.stack.poller import Function
from aion_tools.stack.queue_poller import QueuePoller, QueueSource
from aion_tools.stack.stack import SETTINGS
from aion_tools.template.reader import Place
from tests.support import ministack
from tests.support.e2e.rest_api import RestApi, rest_api
from tests.support.e2e.runtime_emulator import alone, emulated, lambda_python
from tests.tools.e2e.packages import unpacked
from tests.tools.e2e.sam_project import SamProject

FUNCTIONS = ("ApiFunction", "TaskFunction", "PushFunction", "SweepFunction")
STACK = "aion-dev"
TIMEOUT = 120
# Allow plain HTTP and 127.0.0.0/8, because the webhook receivers run on this machine. Run the functions without a base
# URL, because BaseUrl only tells `aion deploy` the URL of the test's entry point.
HERE = {"AION_PUSH_HTTP": "true", "AION_PUSH_NETWORKS": "127.0.0.0/8", "AION_BASE_URL": ""}


@dataclass(eq=False)
class DeployedStack:
    """CloudFormation stack with running functions, and its URL for clients."""

    project: SamProject
    options: list[str]
    """Options of `aion deploy`."""
    printed: str
    """Output of `aion deploy`."""
    entrypoint_url: RestApi
    code: Path
    physical_ids: dict[str, str]
    configurations: dict[str, dict[str, Any]]
    """Lambda's configuration of each function."""
    urls: dict[str, str] = field(default_factory=dict)
    handed: list[tuple[str, Any]] = field(default_factory=list)
    """Events of each function, except requests."""
    _locks: dict[str, Lock] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return Place(ministack.ACCOUNT, REGION, self.project.endpoint, STACK)

    def client(self, service: str) -> Any:
        """Return the boto3 client of an emulated AWS service."""
        return self.project.client(service)

    def environment(self, function: str) -> dict[str, str]:
        """Return the function's environment variables: those in the template, and those that Lambda sets."""
        given: dict[str, str] = self.configurations[function]["Environment"]["Variables"]
        return {**given, **SETTINGS, **HERE}

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke the built function and return its result. A lock serialises events: the emulator handles one at a time."""
        self.handed.append((function, event))
        with self._locks.setdefault(function, Lock()):
            answer = httpx.post(self.urls[function], json=event, timeout=TIMEOUT)
        answer.raise_for_status()
        told = answer.json()
        if isinstance(told, dict) and "errorType" in told:
            raise RuntimeError(f"{function}: {told}")
        return told


def _name_in(arn: str) -> str:
    """Return the function's name from the ARN of the function or of its alias."""
    return arn.split(":")[6]


@contextmanager
def deployed_stack(folder: Path, aion_yaml: str, agents: Mapping[str, str]) -> Iterator[DeployedStack]:
    """Deploy a project with the given aion.yaml and agent files; run its functions until the block ends.

    The functions are the packages of this checkout with the project's agents, because `sam build` would take a minute.
    """
    with ExitStack() as until_the_end:
        entrypoint_url = until_the_end.enter_context(rest_api())
        endpoint = until_the_end.enter_context(ministack.serving(ministack.DEPLOYMENT))
        project = SamProject.made(folder / "project", endpoint, agents, aion_yaml=aion_yaml)
        chosen = {
            "BaseUrl": entrypoint_url.url,
            "AwsEndpointUrl": endpoint,
            "LeaseSeconds": "5",
        }
        options = [f"--parameter={name}={value}" for name, value in chosen.items()]
        printed = project.deployed(STACK, *options).stdout
        found = project.client("cloudformation").describe_stack_resources(StackName=project.application(STACK))[
            "StackResources"
        ]
        ids = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found}
        functions = project.client("lambda")
        configurations = {name: functions.get_function_configuration(FunctionName=ids[name]) for name in FUNCTIONS}
        stack = DeployedStack(project, options, printed, entrypoint_url, folder, ids, configurations)
        for name in FUNCTIONS:
            unpacked(name, folder / name, {"aion.yaml": aion_yaml, **agents})
        until_the_end.enter_context(running(stack))
        yield stack


@contextmanager
def running(stack: DeployedStack) -> Iterator[None]:
    """Run the stack's four functions from the unpacked packages in `code`, until the block ends."""
    with ExitStack() as until_the_end:
        until_the_end.enter_context(_streaming_api(stack))
        for name in FUNCTIONS[1:]:
            stack.urls[name] = until_the_end.enter_context(running_alone(stack, name))
        pollers = list(_pollers(stack))
        for poller in pollers:
            poller.start()
        for poller in pollers:
            until_the_end.callback(poller.stop)
        yield


@contextmanager
def running_alone(stack: DeployedStack, function: str, **environ: str) -> Iterator[str]:
    """Run a function's package under the runtime emulator, without installed packages; yield the URL for invocations."""
    scratch = stack.code / f"{function}-runtime"
    scratch.mkdir(exist_ok=True)
    handler = stack.configurations[function]["Handler"]
    with emulated(stack.code / function, handler, {**stack.environment(function), **environ}, scratch) as url:
        yield url


@contextmanager
def _streaming_api(stack: DeployedStack) -> Iterator[None]:
    """Run ApiFunction as Lambda does: start the exec wrapper with the command of the managed runtime."""
    code, environ = stack.code / "ApiFunction", stack.environment("ApiFunction")
    scratch = stack.code / "ApiFunction-runtime"
    scratch.mkdir()
    wrapper = environ["AWS_LAMBDA_EXEC_WRAPPER"].replace("/var/task", str(code))
    process = subprocess.Popen(
        [wrapper, alone(lambda_python()[0], scratch), "/var/runtime/bootstrap.py"],
        cwd=code,
        env={
            **environ,
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_LAMBDA_RUNTIME_API": stack.entrypoint_url.runtime,
            "AWS_LAMBDA_FUNCTION_NAME": stack.physical_ids["ApiFunction"],
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
        },
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def _invoke(stack: DeployedStack, name: str) -> Callable[[Any, Any], Any]:
    """Return a handler that invokes the Lambda function of this name."""
    return lambda event, _: stack.invoke(name, event)


def _pollers(stack: DeployedStack) -> Iterator[QueuePoller]:
    """Disable the stack's rules and event source mappings, and yield a poller in place of each mapping."""
    functions, names = stack.client("lambda"), {id_: name for name, id_ in stack.physical_ids.items()}
    for rule in stack.client("events").list_rules()["Rules"]:
        stack.client("events").disable_rule(Name=rule["Name"])
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        arn = mapping["FunctionArn"]
        name = names[_name_in(arn)]
        configuration = stack.configurations[name]
        event = {
            "Queue": mapping["EventSourceArn"],
            "BatchSize": mapping["BatchSize"],
            "FunctionResponseTypes": mapping["FunctionResponseTypes"],
            # Allow only one concurrent invocation, because the runtime emulator has one execution environment.
            "ScalingConfig": {"MaximumConcurrency": 1},
        }
        function = Function(
            name,
            arn,
            configuration["Timeout"],
            configuration["MemorySize"],
            _invoke(stack, name),
        )
        yield QueuePoller(function, QueueSource.of(event, stack.place), stack.client("sqs"), retry_after=1)
