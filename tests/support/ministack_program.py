"""Program for an environment with ministack: it serves on an inherited listening socket.

Its argument is the number of the socket's file descriptor. The program ends when its standard input is closed, also by
the death of its parent. See `tests/support/ministack.py`.
"""

import asyncio
import os
import re
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app
from ministack.services import lambda_svc
from ministack.services.cloudformation import _stack_events as stack_events
from ministack.services.cloudformation import _stacks as stacks
from ministack.services.cloudformation import changesets, engine, handlers, provisioners
from ministack.services.cloudformation.provisioners import _RESOURCE_HANDLERS as RESOURCES
from ministack.services.cloudformation.provisioners import _nested_stack_lookup_name as name_of_nested
from ministack.services.cloudformation.stacks import _add_event as add_event

FUNCTION_URL = "f" * 32
"""Id of the Function URL of the one stack that has one."""


def end_with_parent() -> None:
    """Wait until the parent has closed the standard input, then end this process."""
    sys.stdin.read()
    os._exit(0)


def accept_what_is_not_emulated() -> None:
    """Accept resources unsupported by ministack: CodeDeploy's traffic shift, and alarms on expressions.

    A CodeDeploy resource gets only a name. An alarm on an expression becomes an alarm on an unused metric.
    """
    nothing = {
        "create": lambda logical_id, props, stack_name: (f"{stack_name}-{logical_id}", {}),
        "update": lambda physical_id, *_: (physical_id, {}),
        "delete": lambda *_: None,
    }
    RESOURCES.setdefault("AWS::CodeDeploy::Application", nothing)
    RESOURCES.setdefault("AWS::CodeDeploy::DeploymentGroup", nothing)
    alarm = RESOURCES["AWS::CloudWatch::Alarm"]
    create, update = alarm["create"], alarm["update"]
    alarm["create"] = lambda logical_id, props, stack_name: create(logical_id, _on_a_metric(props), stack_name)
    alarm["update"] = lambda physical_id, old, new, *more: update(
        physical_id, _on_a_metric(old), _on_a_metric(new), *more
    )


def keep_attributes_in_updates() -> None:
    """Remember the attributes of a nested stack's resource, which ministack forgets if an update does not change it."""
    known: dict[str, Any] = {}

    def remembered(handle: Callable[..., tuple[str, Any]]) -> Callable[..., tuple[str, Any]]:
        @wraps(handle)
        def remember(*arguments: Any, **options: Any) -> tuple[str, Any]:
            physical_id, attributes = handle(*arguments, **options)
            known[physical_id] = {**known.get(physical_id, {}), **(attributes or {})}
            return physical_id, known[physical_id]

        return remember

    provisioners._provision_resource = remembered(provisioners._provision_resource)
    provisioners._update_resource = remembered(provisioners._update_resource)


def transform_nested_templates() -> None:
    """Apply SAM's transform to the templates of nested stacks too; ministack applies it only to an outermost template."""
    parse, apply = engine._parse_template, engine._apply_transforms
    # Only the deployment of nested stacks looks this name up when it runs.
    engine._parse_template = lambda body: apply(parse(body))


def update_unchanged_templates_with_transform() -> None:
    """Accept an update of a stack by its own template if this has a transform, as CloudFormation does.

    SAM CLI updates the stack with the repositories of images so, at each deployment.
    """
    is_unchanged = handlers._stack_has_no_updates

    def is_refused(stack: dict[str, Any], *arguments: Any, **options: Any) -> bool:
        return "Transform" not in stack.get("_template_body", "") and is_unchanged(stack, *arguments, **options)

    handlers._stack_has_no_updates = is_refused


def keep_what_nested_stacks_retain() -> None:
    """Respect DeletionPolicy when a nested stack is deleted; ministack respects it only in an outermost stack."""
    nested = RESOURCES["AWS::CloudFormation::Stack"]
    delete = nested["delete"]

    def delete_nested(physical_id: str, properties: dict[str, object]) -> None:
        stack = stacks.get(name_of_nested(physical_id)) or {}
        declared = (stack.get("_template") or {}).get("Resources") or {}
        for name, resource in list(stack.get("_resources", {}).items()):
            if declared.get(name, {}).get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate"):
                identified = {"physical_id": resource["PhysicalResourceId"]}
                add_event(
                    stack["StackId"], stack["StackName"], name, resource["ResourceType"], "DELETE_SKIPPED", **identified
                )
                del stack["_resources"][name]
        delete(physical_id, properties)

    nested["delete"] = delete_nested


def list_resources_of_deleted_stacks() -> None:
    """List a deleted stack's resources with their last status, as CloudFormation does; ministack forgets them."""
    listed = handlers._list_stack_resources

    def list_also_deleted(params: dict[str, list[str]]) -> Any:
        stack = handlers._resolve_stack(params["StackName"][0])
        if stack and stack["StackStatus"] == "DELETE_COMPLETE":
            events = [each for each in stack_events[stack["StackId"]] if each["PhysicalResourceId"] != stack["StackId"]]
            stack["_resources"] = {each["LogicalResourceId"]: each for each in events}
        return listed(params)

    handlers._ACTION_HANDLERS["ListStackResources"] = list_also_deleted


def name_aws_in_template_urls() -> None:
    """Give the nested templates of a change set the URLs that SAM CLI writes on AWS: `sam delete` reads no others."""
    resolve = changesets._resolve_template

    def resolve_as_on_aws(params: Any) -> tuple[str | None, Any]:
        body, error = resolve(params)
        return body and re.sub(r"http://[^/\s]+/(?=aws-sam-cli-)", "https://s3.us-east-1.amazonaws.com/", body), error

    changesets._resolve_template = resolve_as_on_aws


def pass_concurrency_as_number() -> None:
    """Convert the MaximumConcurrency of an event source mapping, because its poller fails with CloudFormation's text."""
    mapping = RESOURCES["AWS::Lambda::EventSourceMapping"]
    create, update = mapping["create"], mapping["update"]
    mapping["create"] = lambda logical_id, props, *more: create(logical_id, _with_number(props), *more)
    mapping["update"] = lambda physical_id, old, new, *more: update(
        physical_id, _with_number(old), _with_number(new), *more
    )


def serve_function_url() -> None:
    """Give the stack's Function URL a fixed path, and its requests the signer.

    With a fixed path, a deployment's parameters can contain its URL. The signer is in the event's
    `requestContext.authorizer.iam` (https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html); ministack
    verifies no signature and omits it.
    """
    lambda_svc._new_function_url_id = lambda: FUNCTION_URL
    build = lambda_svc._build_function_url_event

    @wraps(build)
    def build_signed(url_id: str, account: str, *rest: Any, anonymous: bool = False, **options: Any) -> Any:
        event = build(url_id, account, *rest, anonymous=anonymous, **options)
        if not anonymous:
            signer = {"accountId": account, "userArn": f"arn:aws:iam::{account}:user/dev", "userId": "AIDACALLER"}
            more = {"accessKey": "AKIACALLER", "callerId": "AIDACALLER", "cognitoIdentity": None}
            event["requestContext"]["authorizer"] = {"iam": {**signer, **more, "principalOrgId": None}}
        return event

    lambda_svc._build_function_url_event = build_signed


def _with_number(mapping: dict[str, Any]) -> dict[str, Any]:
    scaling = mapping.get("ScalingConfig") or {}
    if "MaximumConcurrency" not in scaling:
        return mapping
    return {**mapping, "ScalingConfig": {**scaling, "MaximumConcurrency": int(scaling["MaximumConcurrency"])}}


def _on_a_metric(alarm: dict[str, object]) -> dict[str, object]:
    if "Metrics" not in alarm:
        return alarm
    plain = {"Namespace": "none", "MetricName": "none", "Statistic": "Sum", "Period": 60}
    return {**{name: value for name, value in alarm.items() if name != "Metrics"}, **plain}


accept_what_is_not_emulated()
keep_attributes_in_updates()
transform_nested_templates()
update_unchanged_templates_with_transform()
keep_what_nested_stacks_retain()
list_resources_of_deleted_stacks()
name_aws_in_template_urls()
pass_concurrency_as_number()
serve_function_url()
config = Config()
config.bind = [f"fd://{sys.argv[1]}"]
config.loglevel = "WARNING"
config.keep_alive_timeout = 600
threading.Thread(target=end_with_parent, daemon=True).start()
asyncio.run(serve(app, config))
