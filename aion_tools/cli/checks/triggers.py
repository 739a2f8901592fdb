"""Checks that a deployment's functions exist, and that its queues and its schedule invoke them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from aion_tools.cli.checks import CheckResult, failed, ok, repairs, warning
from aion_tools.cli.checks.resources import QUEUES, checked

if TYPE_CHECKING:
    from aion_core.aws.client import AwsClient
    from aion_tools.deploy.functions import StackResources

ALIAS = "live"
"""Alias of each function's deployed version, from template.yaml."""

API = "ApiFunction"
"""Logical id of the function that serves requests."""

SWEEP, RULE = "SweepFunction", "SweepFunctionEveryMinute"
"""Logical ids of the sweep's function and of its schedule rule, which SAM names after the function and its event."""

_NO_SWEEP = "the sweep does not run, so a turn with a lost wake-up message does not continue, and webhooks are not retried later"


@dataclass(frozen=True, slots=True)
class QueueFunction:
    """Function that a queue invokes by an event source mapping."""

    logical_id: str
    concurrency: str
    """Template parameter with the maximum concurrency of the mapping."""
    consequence: str
    """Effect on tasks or webhooks while the queue does not invoke the function."""


FUNCTIONS = {
    "task queue": QueueFunction(
        "TaskFunction", "TaskConcurrency", "queued turns do not start, and long turns do not continue"
    ),
    "push queue": QueueFunction("PushFunction", "PushConcurrency", "webhooks receive no notifications"),
}


async def check_triggers(stack: str, environ: Mapping[str, str]) -> AsyncIterator[CheckResult]:
    """Check the API's function, the event source mapping of each queue, and the sweep's schedule rule with its target."""
    from aion_core.aws.client import AwsClient
    from aion_tools.deploy.functions import read_resources

    with ThreadPoolExecutor(1) as executor:
        # Read the stack once, in a task that each check awaits, so that a refusal becomes the result of each check.
        resources = asyncio.ensure_future(asyncio.to_thread(read_resources, stack))
        functions = AwsClient("lambda", executor)
        yield await checked("API's function", stack, "", partial(_api, functions, resources))
        for queue, variable in QUEUES.items():
            check = partial(_mapping, functions, resources, queue)
            yield await checked(f"{queue}'s function", environ.get(variable, ""), variable, check)
        schedule = partial(_schedule, functions, AwsClient("events", executor), resources)
        yield await checked("sweep's schedule", stack, "", schedule)


async def _deleted(
    functions: "AwsClient", found: "StackResources", logical_id: str, name: str, consequence: str
) -> CheckResult | None:
    """Return the failed check `name` if the function or its alias does not exist, else None."""
    from aion_tools.operator.health import has_alias

    function = found.physical_id(logical_id)
    if await has_alias(functions, function, ALIAS):
        return None
    message = f"The function {function} ({logical_id}) or its alias {ALIAS} does not exist: {consequence}."
    return failed(name, message, repairs.CREATE_FUNCTION)


async def _api(functions: "AwsClient", resources: "Awaitable[StackResources]", _: str) -> CheckResult:
    found, name = await resources, "API's function"
    deleted = await _deleted(functions, found, API, name, "all requests fail")
    return deleted or ok(name, f"{found.physical_id(API)} exists.")


async def _mapping(functions: "AwsClient", resources: "Awaitable[StackResources]", queue: str, url: str) -> CheckResult:
    from aion_tools.operator.health import mapping_states

    found, invoked, name = await resources, FUNCTIONS[queue], f"{queue}'s function"
    if deleted := await _deleted(functions, found, invoked.logical_id, name, invoked.consequence):
        return deleted
    function = found.arn("lambda", f"function:{found.physical_id(invoked.logical_id)}:{ALIAS}")
    arn = found.arn("sqs", url.rpartition("/")[2])
    states = await mapping_states(functions, function, arn)
    if not states:
        next_step = (
            f"Run `aws lambda create-event-source-mapping --function-name {function} --event-source-arn {arn} --batch-size 1 "
            "--function-response-types ReportBatchItemFailures --scaling-config MaximumConcurrency=N`, "
            f"where N is the stack's parameter {invoked.concurrency}."
        )
        return failed(name, f"{function} has no event source mapping for {arn}: {invoked.consequence}.", next_step)
    if "Enabled" in states.values():
        return ok(name, f"{function} receives the messages of {arn}.")
    mapping, state = next(iter(states.items()))
    message = f"The event source mapping {mapping} of {function} is {state}: {invoked.consequence}."
    if state in ("Creating", "Enabling", "Updating"):
        return warning(name, message, "Run `aion doctor` again in a minute.")
    if state in ("Disabling", "Deleting"):
        next_step = (
            "Lambda refuses changes until this ends. Run `aion doctor` again in a minute, which prints the repair."
        )
        return failed(name, message, next_step)
    return failed(name, message, f"Run `aws lambda update-event-source-mapping --enabled --uuid {mapping}`.")


async def _schedule(
    functions: "AwsClient", events: "AwsClient", resources: "Awaitable[StackResources]", _: str
) -> CheckResult:
    from aion_tools.operator.health import rule_state, rule_targets

    found, name = await resources, "sweep's schedule"
    if deleted := await _deleted(functions, found, SWEEP, name, _NO_SWEEP):
        return deleted
    rule = found.physical_id(RULE)
    arn = found.arn("lambda", f"function:{found.physical_id(SWEEP)}:{ALIAS}")
    put_target = f"aws events put-targets --rule {rule} --targets Id={RULE}LambdaTarget,Arn={arn}"
    state = await rule_state(events, rule)
    if not state:
        put_rule = f"aws events put-rule --name {rule} --schedule-expression 'rate(1 minute)'"
        return failed(name, f"The rule {rule} does not exist: {_NO_SWEEP}.", f"Run `{put_rule} && {put_target}`.")
    if arn not in await rule_targets(events, rule):
        return failed(name, f"The rule {rule} does not have the target {arn}: {_NO_SWEEP}.", f"Run `{put_target}`.")
    if state == "DISABLED":
        return failed(
            name, f"The rule {rule} is disabled: {_NO_SWEEP}.", f"Run `aws events enable-rule --name {rule}`."
        )
    return ok(name, f"The rule {rule} calls {arn} each minute.")
