"""Program for an environment with ministack: it serves on an inherited listening socket.

Its argument is the number of the socket's file descriptor. The program ends when its standard input is closed, also by
the death of its parent. See `tests/support/ministack.py`.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app
from ministack.services.cloudformation import _stacks as stacks
from ministack.services.cloudformation import engine, provisioners
from ministack.services.cloudformation.provisioners import _RESOURCE_HANDLERS as RESOURCES
from ministack.services.cloudformation.provisioners import _nested_stack_lookup_name as name_of_nested
from ministack.services.cloudformation.stacks import _add_event as add_event


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


def _on_a_metric(alarm: dict[str, object]) -> dict[str, object]:
    if "Metrics" not in alarm:
        return alarm
    plain = {"Namespace": "none", "MetricName": "none", "Statistic": "Sum", "Period": 60}
    return {**{name: value for name, value in alarm.items() if name != "Metrics"}, **plain}


accept_what_is_not_emulated()
keep_attributes_in_updates()
transform_nested_templates()
keep_what_nested_stacks_retain()
config = Config()
config.bind = [f"fd://{sys.argv[1]}"]
config.loglevel = "WARNING"
config.keep_alive_timeout = 600
threading.Thread(target=end_with_parent, daemon=True).start()
asyncio.run(serve(app, config))
