"""What an operator relies on: alarms that reach somebody and say what to do, graphs of what is counted, logs that end."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from infra.gates.deployed import Deployed
from infra.template import FUNCTION, LOG_GROUP, QUEUE, TABLE, Template

ALARM = "AWS::CloudWatch::Alarm"
DASHBOARD = "AWS::CloudWatch::Dashboard"
FILTER = "AWS::Logs::MetricFilter"
RUNBOOK = "docs/runbook.md"
# Where aion names what it counts.
COUNTED = "aion_core/ports/metrics.py"
EMF = "aion"
# Of AWS's own metrics those that are used here.
AWS_METRICS = {
    "AWS/Lambda": {"Invocations", "Errors", "Throttles", "Duration", "ConcurrentExecutions"},
    "AWS/SQS": {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"},
    "AWS/ApiGateway": {"Count", "4XXError", "5XXError", "Latency"},
    "AWS/DynamoDB": {
        "ConsumedReadCapacityUnits",
        "ConsumedWriteCapacityUnits",
        "ReadThrottleEvents",
        "WriteThrottleEvents",
    },
}
# Lambda takes a line without a level for INFO.
METRICS_PASS = ("TRACE", "DEBUG", "INFO")
Used = tuple[str, str, dict[str, str]]


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what an operator would not be told, or would be told and could not use."""
    known = _Known(deployed.template)
    yield from _alarms(deployed.template, known)
    yield from _watched(deployed.template)
    for name in deployed.template.resources(DASHBOARD):
        body = json.loads(deployed.template.resolved(name, "DashboardBody")["DashboardBody"])
        for widget in body["widgets"]:
            for used in _of_widget(widget["properties"]["metrics"]):
                if (why := known.why_not(used)) is not None:
                    yield f"{name}, {widget['properties']['title']!r}: {why}"
    yield from _logs(deployed)


def _alarms(template: Template, known: "_Known") -> Iterator[str]:
    """Each alarm reaches somebody, says what to do, and knows what silence means."""
    runbook = template.path.parent / RUNBOOK
    sections = set(
        re.findall(r"^#+ +`?(\w+)`?", runbook.read_text(encoding="utf-8") if runbook.is_file() else "", re.M)
    )
    for name in sorted({name for name in sections if name.endswith("Alarm")} - {*template.resources(ALARM)}):
        yield f"{RUNBOOK} has a section {name}, and there is no such alarm"
    for name in template.resources(ALARM):
        raw = template.properties(name)
        if not raw.get("AlarmActions") or raw.get("ActionsEnabled", True) is not True:
            yield f"{name} rings and tells nobody: AlarmActions"
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
        for used in _of_alarm(template, name):
            if (why := known.why_not(used)) is not None:
                yield f"{name}: {why}"


def _watched(template: Template) -> Iterator[str]:
    """Every queue and every function has its alarms."""
    watched = [used for name in template.resources(ALARM) for used in _of_alarm(template, name)]
    rings = {(metric, value) for _, metric, dimensions in watched for value in dimensions.values()}
    dead = [
        template.resolved(name, "RedrivePolicy")["RedrivePolicy"]["deadLetterTargetArn"]
        for name in template.resources(QUEUE)
        if "RedrivePolicy" in template.properties(name)
    ]
    for name in template.resources(QUEUE):
        is_dead = template.attribute(name, "Arn", name) in dead
        metric = "ApproximateNumberOfMessagesVisible" if is_dead else "ApproximateAgeOfOldestMessage"
        if (metric, template.attribute(name, "QueueName", name)) not in rings:
            yield f"no alarm rings for {metric} of {name}"
    for name in template.resources(FUNCTION):
        for metric in ("Errors", "Throttles"):
            if (metric, template.attribute(name, None, name)) not in rings:
                yield f"no alarm rings for {metric} of {name}"


def _logs(deployed: Deployed) -> Iterator[str]:
    """Every log has an end, and every function logs to one that has."""
    template = deployed.template
    for name, group in deployed.resources(LOG_GROUP):
        if "RetentionInDays" not in group["Properties"]:
            yield f"{name} keeps logs for ever"
    groups = {template.attribute(name, None, name) for name in template.resources(LOG_GROUP)}
    for function in template.resources(FUNCTION):
        if template.resolved(function, "LoggingConfig").get("LoggingConfig", {}).get("LogGroup") not in groups:
            yield f"{function} logs to a group without retention"
        logging = template.resolved(function, "LoggingConfig").get("LoggingConfig", {})
        if logging.get("LogFormat") != "JSON":
            yield f"{function}: what Lambda itself logs would be no JSON, as runbook and queries have it: LogFormat"
        if logging.get("ApplicationLogLevel", "INFO") not in METRICS_PASS:
            yield f"{function} counts nothing: a metric is a line without a level, which ApplicationLogLevel keeps back"


class _Known:
    """Which metrics there are: AWS's of this template's things, those of its metric filters, and those that aion emits."""

    def __init__(self, template: Template) -> None:
        self._emitted = _emitted(template.path.parent / COUNTED)
        self._filtered = {
            (each["MetricNamespace"], each["MetricName"])
            for name in template.resources(FILTER)
            for each in template.resolved(name, "MetricTransformations")["MetricTransformations"]
        }
        names = {template.attribute(name, None, name) for name in template.resources(FUNCTION)}
        apis = [template.resolved(name, "Name", "StageName") for name in template.resources("AWS::Serverless::Api")]
        indexes = {
            index["IndexName"]
            for name in template.resources(TABLE)
            for index in template.resolved(name, "GlobalSecondaryIndexes").get("GlobalSecondaryIndexes", [])
        }
        self._things = {
            "FunctionName": names,
            "QueueName": {template.attribute(name, "QueueName", name) for name in template.resources(QUEUE)},
            "TableName": {template.attribute(name, None, name) for name in template.resources(TABLE)},
            "GlobalSecondaryIndexName": indexes,
            "ApiName": {api.get("Name") for api in apis},
            "Stage": {api.get("StageName") for api in apis},
            "service": template.environment_values("POWERTOOLS_SERVICE_NAME"),
        }

    def why_not(self, used: Used) -> str | None:
        """Return what is wrong with a metric that is looked at, where something is."""
        namespace, metric, dimensions = used
        for dimension, value in dimensions.items():
            if value not in self._things.get(dimension, ()):
                return f"{metric} of {dimension} {value}: there is none"
        if (namespace, metric) in self._filtered and not dimensions:
            return None
        if metric in AWS_METRICS.get(namespace, ()) and dimensions:
            return None
        if namespace == EMF and metric in self._emitted and dimensions.keys() == {"service"}:
            return None
        return f"nothing counts {metric} in {namespace} by {sorted(dimensions)}"


def _emitted(file: Path) -> set[str]:
    """Return the names of the metrics that a module's enumeration has."""
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    return {
        statement.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }


def _of_alarm(template: Template, name: str) -> Iterator[Used]:
    properties = template.resolved(name, "Metrics", "Namespace", "MetricName", "Dimensions")
    queries = properties.get("Metrics", [])
    metrics = [query["MetricStat"]["Metric"] for query in queries if "MetricStat" in query] or [properties]
    for metric in metrics:
        dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions", [])}
        yield metric["Namespace"], metric["MetricName"], dimensions


def _of_widget(rows: Sequence[list[Any]]) -> Iterator[Used]:
    """Yield a graph's metrics; of a row that begins with dots the row above says what they stand for."""
    above: list[str] = []
    for row in rows:
        words = [word for word in row if isinstance(word, str)]
        if words[0] == "...":
            words = above[: len(above) - len(words) + 1] + words[1:]
        above = [above[n] if word == "." else word for n, word in enumerate(words)]
        namespace, metric, *rest = above
        yield namespace, metric, dict(zip(rest[::2], rest[1::2], strict=True))
