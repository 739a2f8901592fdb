"""Local deployment: a stack of the transformed template on ministack, run by the built packages.

The emulator of Lambda's runtime runs the functions; our pollers replace the event sources.
"""

import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import httpx

from aion_core.local import REGION
from aion_core.local.lambda_events import schedule_event
from aion_core.local.pollers import Function, QueuePoller, QueueSource
from aion_core.local.stack import SETTINGS, client_of
from aion_core.packaging.files import ZipWriter
from aion_core.template.file import parsed
from aion_core.template.reader import Place
from infra.policies.check import CODE, transformed
from tests.e2e.packages import package_here
from tests.e2e.rest_api import RestApi, rest_api
from tests.e2e.runtime_emulator import alone, emulated, lambda_python
from tests.support import ministack
from tests.support.server import ROOT

FUNCTIONS = ("ApiFunction", "TaskFunction", "PushFunction", "SweepFunction")
SERVICES = (
    "apigateway,appconfig,cloudformation,cloudwatch,codedeploy,dynamodb,events,iam,kms,lambda,logs,s3,sns,sqs,sts"
)
STACK = "deployed"
TIMEOUT = 120
# The receivers are on this machine.
HERE = {"AION_PUSH_HTTP": "true", "AION_PUSH_NETWORKS": "127.0.0.0/8"}


@dataclass(eq=False)
class DeployedStack:
    """Stack of CloudFormation, with its running functions and its URL for clients."""

    endpoint: str
    entrypoint_url: RestApi
    code: Path
    physical_ids: dict[str, str]
    configurations: dict[str, dict[str, Any]]
    """Lambda's configuration of each function."""
    idle: set[str] = field(default_factory=set)
    """Functions without effect: their events are only recorded."""
    urls: dict[str, str] = field(default_factory=dict)
    handed: list[tuple[str, Any]] = field(default_factory=list)
    """Events of each function, except requests."""
    _locks: dict[str, Lock] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Return a client of this stack's DynamoDB, SQS or S3."""
        return client_of(service, self.endpoint)

    def environment(self, function: str) -> dict[str, str]:
        """Return the function's variables from CloudFormation and from Lambda."""
        given: dict[str, str] = self.configurations[function]["Environment"]["Variables"]
        return {**given, **SETTINGS, **HERE}

    def invoke(self, function: str, event: Any) -> Any:
        """Invoke the built function, and return its answer; the emulator handles one event at a time."""
        self.handed.append((function, event))
        if function in self.idle:
            return {}
        with self._locks.setdefault(function, Lock()):
            answer = httpx.post(self.urls[function], json=event, timeout=TIMEOUT)
        answer.raise_for_status()
        told = answer.json()
        if isinstance(told, dict) and "errorType" in told:
            raise RuntimeError(f"{function}: {told}")
        return told

    def call_schedule(self, function: str) -> Any:
        """Invoke the function with the event of the template's rule."""
        events = self.client("events")
        for rule in (each["Name"] for each in events.list_rules()["Rules"]):
            if any(_name_in(each["Arn"]) == self.physical_ids[function] for each in _targets(events, rule)):
                break
        else:
            raise AssertionError(f"no rule calls {function}")
        place = Place(ministack.ACCOUNT, REGION, self.endpoint, STACK)
        return self.invoke(function, schedule_event("Schedule", rule, {}, place))


def _targets(events: Any, rule: str) -> list[dict[str, Any]]:
    targets: list[dict[str, Any]] = events.list_targets_by_rule(Rule=rule)["Targets"]
    return targets


def _name_in(arn: str) -> str:
    """Return the function's name, also from the ARN of an alias."""
    return arn.split(":")[6]


@contextmanager
def deployed_stack(folder: Path, aion_yaml: str, agents: Mapping[str, str]) -> Iterator[DeployedStack]:
    """Deploy the built packages with this aion.yaml and these files beside it, until the block ends."""
    with ExitStack() as until_the_end:
        entrypoint_url = until_the_end.enter_context(rest_api())
        endpoint = until_the_end.enter_context(ministack.serving(SERVICES))
        physical_ids = created(ROOT / "template.yaml", endpoint, {"AwsEndpointUrl": endpoint, "LeaseSeconds": "5"})
        functions = client_of("lambda", endpoint)
        configurations = {
            name: functions.get_function_configuration(FunctionName=physical_ids[name]) for name in FUNCTIONS
        }
        stack = DeployedStack(endpoint, entrypoint_url, folder, physical_ids, configurations)
        for name in FUNCTIONS:
            unpack(name, folder / name, aion_yaml, agents)
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
    """Run the package under the runtime emulator, with only the package and the runtime on the path; yield its URL."""
    scratch = stack.code / f"{function}-runtime"
    scratch.mkdir(exist_ok=True)
    handler = stack.configurations[function]["Handler"]
    with emulated(stack.code / function, handler, {**stack.environment(function), **environ}, scratch) as url:
        yield url


def created(template: Path, endpoint: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """Create the stack of the transformed template, and return the physical id of each of its resources."""
    bucket, _, key = CODE.removeprefix("s3://").partition("/")
    s3 = client_of("s3", endpoint)
    s3.create_bucket(Bucket=bucket)
    # The emulator stores the code of a function, but never invokes it: the package itself runs elsewhere.
    s3.put_object(Bucket=bucket, Key=key, Body=b"PK\x05\x06" + bytes(18))
    plain = _made_here(transformed(template, parameters), template, s3, f"{endpoint}/{bucket}")
    cloudformation = client_of("cloudformation", endpoint)
    cloudformation.create_stack(
        StackName=STACK,
        TemplateBody=json.dumps(plain, default=str),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": TIMEOUT}
    )
    found = cloudformation.describe_stack_resources(StackName=STACK)["StackResources"]
    return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found}


def _made_here(document: dict[str, Any], file: Path, s3: Any, bucket_url: str) -> dict[str, Any]:
    """Return the template in the emulator's form: nested ones in a bucket, as after `sam package`.

    It omits two unsupported things, irrelevant for requests: the gradual shift to a new version (here is only one),
    and alarms on expressions.
    """
    resources: dict[str, Any] = {}
    for name, resource in document["Resources"].items():
        kind, properties = resource["Type"], resource.get("Properties") or {}
        if kind.startswith("AWS::CodeDeploy::") or (kind == "AWS::CloudWatch::Alarm" and "Metrics" in properties):
            continue
        if kind == "AWS::CloudFormation::Stack":
            nested = file.parent / properties["TemplateURL"]
            made = _made_here(deepcopy(parsed(nested.read_text())), nested, s3, bucket_url)
            s3.put_object(Bucket=bucket_url.rpartition("/")[2], Key=nested.name, Body=json.dumps(made, default=str))
            properties["TemplateURL"] = f"{bucket_url}/{nested.name}"
        resources[name] = {key: value for key, value in resource.items() if key != "UpdatePolicy"}
    return {**document, "Resources": resources}


def unpack(function: str, target: Path, aion_yaml: str, agents: Mapping[str, str]) -> None:
    """Unpack the built package as Lambda does, and add the agents of a user's project."""
    with zipfile.ZipFile(package_here(function).zip(ZipWriter())) as archive:
        archive.extractall(target)
        for entry in archive.infolist():
            (target / entry.filename).chmod(entry.external_attr >> 16 & 0o777)
    if (target / "aion.yaml").exists():
        for name, text in {"aion.yaml": aion_yaml, **agents}.items():
            (target / name).write_text(text)


@contextmanager
def _streaming_api(stack: DeployedStack) -> Iterator[None]:
    """Run ApiFunction like Lambda with an exec wrapper: the wrapper gets the runtime's own command."""
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
        process.wait(timeout=30)


def _invoke(stack: DeployedStack, name: str) -> Callable[[Any, Any], Any]:
    """Return the function of this name, to call with an event and a context."""
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
            # The maximum of an emulator of one environment.
            "ScalingConfig": {"MaximumConcurrency": 1},
        }
        function = Function(
            name,
            arn,
            configuration["Timeout"],
            configuration["MemorySize"],
            _invoke(stack, name),
        )
        place = Place(ministack.ACCOUNT, REGION, stack.endpoint, STACK)
        yield QueuePoller(function, QueueSource.of(event, place), stack.client("sqs"), retry_after=1)
