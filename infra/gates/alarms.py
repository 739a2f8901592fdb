"""Alarms: each reaches somebody in time and says what to do, and each queue and function has those that it needs."""

import re
from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import ALARM, FUNCTION, KEY, QUEUE, TOPIC, Template, TemplateError
from infra.gates.deployed import Deployed, listed
from infra.gates.metrics import Known, of_alarm

RUNBOOK = "docs/runbook.md"
GIVEN = "arn:aws:sns:us-east-1:123456789012:given"
# Seconds: what happens that long before anybody hears of it has been told by users before.
LATEST = 3600
VISIBLE = "ApproximateNumberOfMessagesVisible"
CLOUDWATCH = {"Service": "cloudwatch.amazonaws.com"}


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what an operator would not be told, or would be told and could not use."""
    yield from _alarms(deployed.template, Known(deployed.template))
    yield from _reached(deployed)
    yield from _topics(deployed.template)
    yield from _watched(deployed.template)


def _alarms(template: Template, known: Known) -> Iterator[str]:
    """Each alarm reaches somebody, says what to do, and knows what silence means."""
    runbook = template.path.parent / RUNBOOK
    sections = set(
        re.findall(r"^#+ +`?(\w+)`?", runbook.read_text(encoding="utf-8") if runbook.is_file() else "", re.M)
    )
    for name in sorted({name for name in sections if name.endswith("Alarm")} - {*template.resources(ALARM)}):
        yield f"{RUNBOOK} has a section {name}, and there is no such alarm"
    for name in template.resources(ALARM):
        raw = template.properties(name)
        if not str(raw.get("ComparisonOperator")).startswith("GreaterThan"):
            yield f"{name} rings while all is well: each of these counts what there is too much of"
        if "TreatMissingData" not in raw:
            yield f"{name} does not say what it means when nothing is counted: TreatMissingData"
        if not str(raw.get("AlarmDescription", "")).rstrip().endswith(f" {RUNBOOK}#{name.lower()}"):
            yield f"{name} does not say where the operator reads on: {RUNBOOK}#{name.lower()}"
        if name not in sections:
            yield f"{RUNBOOK} has no section {name}"
        if template.resolved(name, "AlarmName").get("AlarmName") != f"{template.place.stack_name}-{name}":
            yield f"{name} is called by something random: AlarmName has to be the deployment's name and its own"
        if (seconds := _rings_after(template, name)) > LATEST:
            yield f"{name} rings after {seconds / 60:g} minutes: whoever it is about has waited for an hour by then"
        for used in of_alarm(template, name):
            if (why := known.why_not(used)) is not None:
                yield f"{name}: {why}"


def _watched(template: Template) -> Iterator[str]:
    """Every queue and every function has its alarms."""
    watched = [used for name in template.resources(ALARM) for used in of_alarm(template, name)]
    rings = {(metric, value) for _, metric, dimensions in watched for value in dimensions.values()}
    dead = [
        template.resolved(name, "RedrivePolicy")["RedrivePolicy"]["deadLetterTargetArn"]
        for name in template.resources(QUEUE)
        if "RedrivePolicy" in template.properties(name)
    ]
    for name in template.resources(QUEUE):
        is_dead = template.attribute(name, "Arn", name) in dead
        metric = VISIBLE if is_dead else "ApproximateAgeOfOldestMessage"
        if (metric, template.attribute(name, "QueueName", name)) not in rings:
            yield f"no alarm rings for {metric} of {name}"
    for name in template.resources(FUNCTION):
        for metric in ("Errors", "Throttles"):
            if (metric, template.attribute(name, None, name)) not in rings:
                yield f"no alarm rings for {metric} of {name}"
    for name in template.resources(ALARM):
        said = template.resolved(name, "MetricName", "Dimensions", "Statistic", "Threshold", "ComparisonOperator")
        of = [each["Value"] for each in said.get("Dimensions", []) if each["Name"] == "QueueName"]
        if said.get("MetricName") == VISIBLE and not _rings_for_one(said):
            yield f"{name} lets dead letters of {', '.join(of)} lie: it has to ring for the first"
        if of and said.get("Statistic") != "Maximum":
            yield f"{name} looks away while the worst of {', '.join(of)} happens: its Statistic has to be Maximum"


def _reached(deployed: Deployed) -> Iterator[str]:
    """Each alarm tells a topic, and who is to get a mail hears that one, whether a topic was given or is made."""
    for given, said in ((GIVEN, "is given"), ("", "is empty")):
        template = deployed.with_parameters(AlarmTopic=given, AlarmEmail="operator@example.com")
        topics = {given} if given else {template.attribute(name, None, name) for name in template.resources(TOPIC)}
        for name in template.resources(ALARM):
            enabled = template.properties(name).get("ActionsEnabled", True) is True
            if not enabled or _resolved(template, name, "AlarmActions") not in [[topic] for topic in topics]:
                yield f"{name} rings and tells nobody when AlarmTopic {said}: AlarmActions"
        mails = template.resources("AWS::SNS::Subscription")
        if [name for name in mails if _resolved(template, name, "TopicArn") in topics] == []:
            yield f"AlarmEmail gets no mail when AlarmTopic {said}: no subscription is to the topic that is told"


def _resolved(template: Template, name: str, wanted: str) -> Any:
    """Return a property, None where it names what is not made."""
    try:
        return template.resolved(name, wanted).get(wanted)
    except TemplateError:
        return None


def _topics(template: Template) -> Iterator[str]:
    """CloudWatch may publish to the topics that are made here, and use the key that they are encrypted under."""
    allowed = {
        topic
        for policy in template.resources("AWS::SNS::TopicPolicy")
        for topic in template.resolved(policy, "Topics")["Topics"]
        if "sns:Publish" in _granted(template.properties(policy)["PolicyDocument"])
    }
    keys = {template.attribute(name, None, name): name for name in template.resources(KEY)}
    for name in template.resources(TOPIC):
        if template.attribute(name, None, name) not in allowed:
            yield f"{name} takes no alarm: no policy lets CloudWatch sns:Publish to it"
        # CloudWatch may not use the account's own key for SNS.
        key = keys.get(template.resolved(name, "KmsMasterKeyId").get("KmsMasterKeyId", ""))
        if key is None or not {"kms:Decrypt", "kms:GenerateDataKey"} <= _granted(template.properties(key)["KeyPolicy"]):
            yield f"{name} takes no alarm: its key has to be one that lets CloudWatch kms:Decrypt and kms:GenerateDataKey"


def _granted(policy: dict[str, Any]) -> set[str]:
    """Return what a policy lets CloudWatch do."""
    statements = [each for each in listed(policy["Statement"]) if each["Effect"] == "Allow"]
    return {action for each in statements if each.get("Principal") == CLOUDWATCH for action in listed(each["Action"])}


def _rings_after(template: Template, name: str) -> int:
    """Return how many seconds an alarm has to see something before it rings."""
    said = template.resolved(name, "Metrics", "Period", "EvaluationPeriods", "DatapointsToAlarm")
    periods = [query["MetricStat"]["Period"] for query in said.get("Metrics", []) if "MetricStat" in query]
    points = said.get("DatapointsToAlarm", said.get("EvaluationPeriods", 1))
    return max(map(int, [*periods, said.get("Period", 0)])) * int(points)


def _rings_for_one(said: dict[str, Any]) -> bool:
    threshold = float(said["Threshold"])
    return threshold <= 1 if said["ComparisonOperator"] == "GreaterThanOrEqualToThreshold" else threshold < 1
