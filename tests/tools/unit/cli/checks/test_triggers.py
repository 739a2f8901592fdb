"""Checks by `aion doctor` that queues and schedule invoke the functions, on an emulated stack."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aion_tools.cli.checks.triggers import ALIAS, API, FUNCTIONS, RULE, SWEEP
from aion_tools.stack.stack import LocalStack
from scripts.policies.check import transformed
from tests.support import operating
from tests.tools.unit.cli.checks.doctor_command import doctor

REQUESTS, TASK, PUSH, SCHEDULE = "API's function", "task queue's function", "push queue's function", "sweep's schedule"
ALL = (REQUESTS, TASK, PUSH, SCHEDULE)
QUEUES = {"TaskFunction": "TaskQueue", "PushFunction": "PushQueue"}
_numbers = itertools.count()


class Triggers:
    """Stack with functions, event source mappings and a schedule rule, and its checks by `aion doctor`."""

    def __init__(self, stack: LocalStack, name: str) -> None:
        self.lambdas, self.events = stack.client("lambda"), stack.client("events")
        self._environ, self._stack = operating.environ_of(stack), operating.registered(stack, name)
        role = stack.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        code = {"Handler": "a.b", "Role": role, "Runtime": "python3.13", "Code": {"ZipFile": "x"}}
        ids = self._add(
            stack,
            {each: {"Type": "AWS::Lambda::Function", "Properties": code} for each in (API, *QUEUES, SWEEP)}
            | {RULE: {"Type": "AWS::Events::Rule", "Properties": {"ScheduleExpression": "rate(1 minute)"}}},
        )
        self.rule, self.mappings, aliases = ids[RULE], dict[str, str](), dict[str, str]()
        self.functions = {each: ids[each] for each in (API, *QUEUES, SWEEP)}
        for each in self.functions:
            version = self.lambdas.publish_version(FunctionName=ids[each])["Version"]
            alias = self.lambdas.create_alias(FunctionName=ids[each], Name=ALIAS, FunctionVersion=version)
            aliases[each] = alias["AliasArn"]
        for function, queue in QUEUES.items():
            arn = stack.template.attribute(queue, "Arn", queue)
            mapping = self.lambdas.create_event_source_mapping(FunctionName=aliases[function], EventSourceArn=arn)
            self.mappings[function] = mapping["UUID"]
        self.events.put_targets(Rule=self.rule, Targets=[{"Id": f"{RULE}LambdaTarget", "Arn": aliases[SWEEP]}])

    def checked(self) -> dict[str, dict[str, str]]:
        """Return the results of the checks by their names."""
        # The clients that read stacks are cached by their environment, so each run has its own.
        results = doctor({**self._environ, "AWS_MAX_ATTEMPTS": str(next(_numbers) + 2)}, "--stack", self._stack)[1]
        return {name: results[name] for name in ALL}

    def _add(self, stack: LocalStack, resources: dict[str, Any]) -> dict[str, str]:
        cloudformation, nested = stack.client("cloudformation"), operating.nested_stack(stack, self._stack)
        template = cloudformation.get_template(StackName=nested)["TemplateBody"]
        template["Resources"] |= resources
        given = [{"ParameterKey": each, "UsePreviousValue": True} for each in template["Parameters"]]
        cloudformation.update_stack(StackName=nested, TemplateBody=json.dumps(template), Parameters=given)
        found = cloudformation.describe_stack_resources(StackName=nested)["StackResources"]
        return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found}


@pytest.fixture(scope="module")
def own() -> Iterator[LocalStack]:
    # Start a stack for this module only, because moto invokes mapped functions for each message of a queue.
    with LocalStack.start("template.yaml") as stack:
        yield stack


@pytest.fixture(scope="module")
def whole(own: LocalStack) -> Triggers:
    """Return triggers that no test damages."""
    return Triggers(own, "aion-triggers-whole")


@pytest.fixture
def triggers(own: LocalStack) -> Triggers:
    return Triggers(own, f"aion-triggers-{next(_numbers)}")


def test_doctor_finds_working_mappings_and_schedule(whole: Triggers) -> None:
    results = whole.checked()
    assert {name: each["status"] for name, each in results.items()} == dict.fromkeys(ALL, "ok")
    assert f":{ALIAS} receives the messages of arn:aws:sqs:" in results[TASK]["message"]
    assert whole.rule in results[SCHEDULE]["message"]


def test_doctor_fails_for_disabled_or_missing_mapping(triggers: Triggers) -> None:
    triggers.lambdas.update_event_source_mapping(UUID=triggers.mappings["TaskFunction"], Enabled=False)
    triggers.lambdas.delete_event_source_mapping(UUID=triggers.mappings["PushFunction"])
    results = triggers.checked()
    assert [name for name in ALL if results[name]["status"] == "FAILED"] == [TASK, PUSH]
    assert results[TASK]["message"].endswith("is Disabled: queued turns do not start, and long turns do not continue.")
    command = f"`aws lambda update-event-source-mapping --enabled --uuid {triggers.mappings['TaskFunction']}`"
    assert results[TASK]["next"] == f"Run {command}."
    assert results[PUSH]["message"].endswith(": webhooks receive no notifications.")
    assert "`aws lambda create-event-source-mapping --function-name " in results[PUSH]["next"]


def test_doctor_waits_for_mapping_that_is_being_deleted(whole: Triggers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda refuses to enable a mapping in the state Deleting."""

    def delete(parsed: dict[str, Any], **_: object) -> None:
        for each in parsed["EventSourceMappings"]:
            each["State"] = "Deleting"

    operating.hook(monkeypatch, "after-call.lambda.ListEventSourceMappings", delete)
    result = whole.checked()[TASK]
    assert (result["status"], "update-event-source-mapping" in result["next"]) == ("FAILED", False)
    assert "Run `aion doctor` again in a minute" in result["next"]


@pytest.mark.parametrize(
    ("deleted", "has_function", "check", "consequence"),
    [
        (API, True, REQUESTS, "all requests fail"),
        ("TaskFunction", False, TASK, "queued turns do not start, and long turns do not continue"),
        pytest.param("PushFunction", True, PUSH, "webhooks receive no notifications", marks=pytest.mark.deep),
        pytest.param(SWEEP, False, SCHEDULE, "the sweep does not run", marks=pytest.mark.deep),
    ],
)
def test_doctor_names_repair_of_deleted_function(
    triggers: Triggers, deleted: str, has_function: bool, check: str, consequence: str
) -> None:
    name = triggers.functions[deleted]
    triggers.lambdas.delete_alias(FunctionName=name, Name=ALIAS)
    if not has_function:
        triggers.lambdas.delete_function(FunctionName=name)
    results = triggers.checked()
    assert [name for name in ALL if results[name]["status"] == "FAILED"] == [check]
    message = f"The function {name} ({deleted}) or its alias live does not exist: {consequence}"
    assert results[check]["message"].startswith(message)
    assert "change set of CloudFormation" in results[check]["next"]
    assert "the runbook (A deleted function)" in results[check]["next"]


def _disable(triggers: Triggers) -> str:
    triggers.events.disable_rule(Name=triggers.rule)
    return f"Run `aws events enable-rule --name {triggers.rule}`."


def _remove_target(triggers: Triggers) -> str:
    triggers.events.remove_targets(Rule=triggers.rule, Ids=[f"{RULE}LambdaTarget"])
    return f"Run `aws events put-targets --rule {triggers.rule} --targets Id={RULE}LambdaTarget,Arn=arn:aws:lambda:"


def _delete_rule(triggers: Triggers) -> str:
    _remove_target(triggers)
    triggers.events.delete_rule(Name=triggers.rule)
    return f"Run `aws events put-rule --name {triggers.rule} --schedule-expression 'rate(1 minute)' && aws events put-targets "


@pytest.mark.parametrize("damage", [_disable, pytest.param(_remove_target, marks=pytest.mark.deep), _delete_rule])
def test_doctor_fails_for_damaged_schedule_of_sweep(triggers: Triggers, damage: Callable[[Triggers], str]) -> None:
    next_step = damage(triggers)
    result = triggers.checked()[SCHEDULE]
    assert result["status"] == "FAILED"
    assert triggers.rule in result["message"]
    assert "the sweep does not run" in result["message"]
    assert result["next"].startswith(next_step)


@pytest.mark.parametrize(
    ("operation", "action", "refused"),
    [
        ("cloudformation.DescribeStackResources", "cloudformation:DescribeStackResources", {*ALL}),
        pytest.param(
            "lambda.ListEventSourceMappings", "lambda:ListEventSourceMappings", {TASK, PUSH}, marks=pytest.mark.deep
        ),
        pytest.param("events.DescribeRule", "events:DescribeRule", {SCHEDULE}, marks=pytest.mark.deep),
    ],
)
def test_doctor_names_iam_action_missing_for_triggers(
    whole: Triggers, monkeypatch: pytest.MonkeyPatch, operation: str, action: str, refused: set[str]
) -> None:
    message = f"User: me is not authorized to perform: {action} on resource: *"
    refuse = operating.refuse("AccessDeniedException", operation, message)
    operating.hook(monkeypatch, f"before-call.{operation}", refuse)
    results = whole.checked()
    assert {name for name, each in results.items() if each["status"] == "warning"} == refused
    for name in refused:
        assert f"Your AWS credentials lack a permission ({action})." in results[name]["message"]


def test_template_has_triggers_that_doctor_checks() -> None:
    resources = transformed(Path("template.yaml"))["Resources"]
    sweep = resources[RULE]["Properties"]
    assert (sweep["ScheduleExpression"], sweep["Targets"]) == (
        "rate(1 minute)",
        [{"Arn": {"Ref": f"{SWEEP}Alias{ALIAS}"}, "Id": f"{RULE}LambdaTarget"}],
    )
    for each in FUNCTIONS.values():
        mapping = resources[f"{each.logical_id}WakeUp"]["Properties"]
        assert mapping["FunctionName"] == {"Ref": f"{each.logical_id}Alias{ALIAS}"}
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": {"Ref": each.concurrency}}
        assert (mapping["BatchSize"], mapping["FunctionResponseTypes"]) == (1, ["ReportBatchItemFailures"])
