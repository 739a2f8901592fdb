"""Which metrics there are, and which an alarm or a graph looks at."""

from collections.abc import Iterator, Sequence
from typing import Any

from aion_core.template.reader import FUNCTION, QUEUE, TABLE, Template
from infra.gates.code import core, texts_of_classes

FILTER = "AWS::Logs::MetricFilter"
# Where aion names what it counts.
COUNTED = "ports/observability.py"
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
Used = tuple[str, str, dict[str, str]]
"""Namespace, name and dimensions of a metric."""


class Known:
    """Which metrics there are: AWS's of this template's things, those of its metric filters, and those that aion emits."""

    def __init__(self, template: Template) -> None:
        self._emitted = texts_of_classes(core(template) / COUNTED)
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


def of_alarm(template: Template, name: str) -> Iterator[Used]:
    """Yield the metrics that an alarm looks at."""
    properties = template.resolved(name, "Metrics", "Namespace", "MetricName", "Dimensions")
    queries = properties.get("Metrics", [])
    metrics = [query["MetricStat"]["Metric"] for query in queries if "MetricStat" in query] or [properties]
    for metric in metrics:
        dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions", [])}
        yield metric["Namespace"], metric["MetricName"], dimensions


def of_widget(rows: Sequence[list[Any]]) -> Iterator[Used]:
    """Yield a graph's metrics; of a row that begins with dots the row above says what they stand for."""
    above: list[str] = []
    for row in rows:
        words = [word for word in row if isinstance(word, str)]
        if words[0] == "...":
            words = above[: len(above) - len(words) + 1] + words[1:]
        above = [above[n] if word == "." else word for n, word in enumerate(words)]
        namespace, metric, *rest = above
        yield namespace, metric, dict(zip(rest[::2], rest[1::2], strict=True))
