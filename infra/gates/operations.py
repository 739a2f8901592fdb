"""What an operator looks at: graphs of what is counted, and logs that count errors, and end."""

import json
from collections.abc import Iterator

from aion_core.template.reader import FUNCTION, LOG_GROUP
from infra.gates.deployed import Deployed
from infra.gates.metrics import FILTER, Known, of_widget

DASHBOARD = "AWS::CloudWatch::Dashboard"
# Lambda takes a line without a level for INFO.
METRICS_PASS = ("TRACE", "DEBUG", "INFO")
# How aion's log lines say that something failed.
IS_ERROR = '$.level = "ERROR"'


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what an operator would look at in vain."""
    known = Known(deployed.template)
    for name in deployed.template.resources(DASHBOARD):
        body = json.loads(deployed.template.resolved(name, "DashboardBody")["DashboardBody"])
        for widget in body["widgets"]:
            for used in of_widget(widget["properties"]["metrics"]):
                if (why := known.why_not(used)) is not None:
                    yield f"{name}, {widget['properties']['title']!r}: {why}"
    yield from _logs(deployed)
    yield from _counted(deployed)


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


def _counted(deployed: Deployed) -> Iterator[str]:
    """What each function logs as an error is counted, once."""
    template, counted = deployed.template, list[str]()
    for name in template.resources(FILTER):
        said = template.resolved(name)
        counted.append(said["LogGroupName"])
        amounts = {each.get("MetricValue") for each in said["MetricTransformations"]}
        if IS_ERROR not in said.get("FilterPattern", "") or amounts != {"1"}:
            yield f"{name} counts something else than each line with {IS_ERROR}"
    for name in template.resources(LOG_GROUP):
        if counted.count(group := template.attribute(name, None, name)) != 1:
            yield f"the errors in {name} are counted {counted.count(group)} times: each log has one metric filter"
