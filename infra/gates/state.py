"""What is kept is kept as long as it is needed, and no message is lost or worked on twice at a time."""

from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import BUCKET, FUNCTION, KEY, QUEUE, TABLE, Template
from infra.gates.deployed import Deployed, timeout

LONGEST_RETENTION = 14 * 24 * 3600
# What AWS itself says of queues that call functions, and keeps of a queue that says nothing.
FEWEST_TRIES = 5
SHORTEST_WAIT = 4 * 24 * 3600
# A turn may take two days and a webhook is tried for more than one; a task that is gone by then cannot be finished.
SHORTEST_RETENTION = 7
# What is promised, and forgotten by everybody, is found within this time.
SWEPT = "rate(1 minute)"


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what would be lost too soon."""
    yield from _queues(deployed.template)
    yield from _calls(deployed)
    yield from _state(deployed)
    for choice in deployed.plain["Parameters"].get("RetentionDays", {}).get("AllowedValues", []):
        if int(choice) < SHORTEST_RETENTION:
            yield f"RetentionDays may be {choice}: a turn of two days and the tries of its webhooks take longer"


def _queues(template: Template) -> Iterator[str]:
    queues = {template.attribute(name, "Arn", name): name for name in template.resources(QUEUE)}
    properties = {name: template.resolved(name) for name in queues.values()}
    dead_letters = {arn for p in properties.values() if (arn := p.get("RedrivePolicy", {}).get("deadLetterTargetArn"))}
    timeouts = {name: timeout(template, name) for name in template.resources(FUNCTION)}
    consumers: dict[str, list[int]] = {arn: [] for arn in queues}
    for function, seconds in timeouts.items():
        for _, _, event in template.events(function, "SQS"):
            consumers.setdefault(event["Queue"], []).append(seconds)
            if template.properties(function).get("RecursiveLoop") != "Allow":
                yield f"{function} rings its own queue, which Lambda ends after 16 times without RecursiveLoop: Allow"
    yield from _dead_letters(queues, properties, consumers)
    for arn, name in queues.items():
        if properties[name].get("FifoQueue"):
            yield f"{name} takes no bell: those of a FIFO queue need a group, and order comes from the table"
        if int(properties[name].get("DelaySeconds", 0)):
            yield f"{name} lets every bell wait: DelaySeconds has to be 0, and a bell that is to wait says so itself"
        if properties[name].get("SqsManagedSseEnabled") is not True:
            yield f"{name} is not encrypted"
        if arn in dead_letters:
            if properties[name].get("MessageRetentionPeriod") != LONGEST_RETENTION:
                yield f"{name} forgets dead letters before the 14 days that it could keep them"
            continue
        # Until it has its consumer, the longest of all.
        longest = max(consumers[arn] or timeouts.values(), default=0)
        if int(properties[name].get("VisibilityTimeout", 30)) < longest:
            yield f"{name} shows a message again before the {longest} s are over that its function may take"
        redrive = properties[name].get("RedrivePolicy", {})
        if redrive.get("deadLetterTargetArn") not in queues:
            yield f"{name} has no dead letter queue of this template"
        if int(redrive.get("maxReceiveCount", FEWEST_TRIES)) < FEWEST_TRIES:
            yield f"{name}: a throttled function is a try too: maxReceiveCount has to be at least {FEWEST_TRIES}"
        kept = int(properties[name].get("MessageRetentionPeriod", SHORTEST_WAIT))
        if kept < SHORTEST_WAIT:
            yield f"{name} forgets messages before they have been tried: MessageRetentionPeriod is 4 days by itself"
        if (
            int(redrive.get("maxReceiveCount", FEWEST_TRIES)) * int(properties[name].get("VisibilityTimeout", 30))
            > kept
        ):
            yield f"{name} forgets a message that fails before it is a dead letter: its maxReceiveCount takes longer"


def _dead_letters(
    queues: dict[str, str], properties: dict[str, dict[str, Any]], consumers: dict[str, list[int]]
) -> Iterator[str]:
    """What a queue gave up is found in a place of its own, and lies there."""
    redriven: dict[str, str] = {}
    for name, each in properties.items():
        target = each.get("RedrivePolicy", {}).get("deadLetterTargetArn")
        if target is None or target not in queues:
            continue
        if target in redriven:
            yield f"{name} and {redriven[target]} share the dead letters {queues[target]}: nobody could redrive those of one"
        redriven[target] = name
        if consumers[target]:
            yield f"{name} has {queues[target]} for its dead letters, which a function takes for bells"
        elif "RedrivePolicy" in properties[queues[target]]:
            yield f"{name} has {queues[target]} for its dead letters, which gives them up in turn"


def _calls(deployed: Deployed) -> Iterator[str]:
    """Every function is called, for every message, and by the clock as often as what is overdue may wait."""
    for name, mapping in deployed.resources("AWS::Lambda::EventSourceMapping"):
        properties = mapping["Properties"]
        if properties.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
            yield f"{name}: one message that fails takes its batch along without ReportBatchItemFailures"
        if properties.get("Enabled", True) is not True or "FilterCriteria" in properties:
            yield f"{name} leaves messages in the queue, or drops them: neither Enabled nor FilterCriteria may be there"
    for function in deployed.template.resources(FUNCTION):
        if not deployed.template.written_events(function, "Api", "SQS", "Schedule"):
            yield f"nothing calls {function}: it has no event"
        for name, _, event in deployed.template.events(function, "Schedule"):
            if (
                event.get("Schedule") != SWEPT
                or event.get("Enabled", True) is not True
                or event.get("State") == "DISABLED"
            ):
                yield f"{function}.{name}: what is overdue waits for it, and it has to come by {SWEPT}"


def _state(deployed: Deployed) -> Iterator[str]:
    """What people keep outlives the stack, and the key that seals it does."""
    # What is sealed under a key that is gone is gone too; what is not kept, such as a mail, is not.
    template, sealing = deployed.template, deployed.template.environment_values("AION_KMS_KEY")
    sealed = {name for name in template.resources(KEY) if template.attribute(name, "Arn", name) in sealing}
    for name, resource in deployed.resources(TABLE, BUCKET, KEY):
        is_kept = resource["Type"] != KEY or name in sealed
        if is_kept and {resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")} != {"Retain"}:
            yield f"{name} goes with the stack: DeletionPolicy and UpdateReplacePolicy have to be Retain"
    for name in template.resources(KEY):
        if template.properties(name).get("EnableKeyRotation") is not True:
            yield f"{name} stays the same for ever, and so does what one who got hold of it can open: EnableKeyRotation"
