"""CloudWatch alarms of the template: the tests evaluate each alarm's expression for given metric values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import ALARM, Template
from tests.support.rows import each_row

TEMPLATE = Template(Path(__file__).parents[3] / "template.yaml", BUILD_PLACE)
ALARMS = TEMPLATE.resources(ALARM)

Values = Mapping[str, float]
"""Metric values of one period, by name; other metrics have no data."""

ACTIONS = {"AlarmActions", "OKActions", "InsufficientDataActions"}

IDLE = {"SweepFunction Errors": 0.0, "SweepFound": 0.0, "SweepFunction Throttles": 0.0}
"""A deployment without requests: only the sweep runs, and queues emit no metrics."""


def value_of(metric: Mapping[str, Any], values: Values) -> float | None:
    """Return the metric's value, or None without data. Names of Lambda metrics begin with the function."""
    of_function = next((each["Value"] for each in metric.get("Dimensions", []) if each["Name"] == "FunctionName"), "")
    name = f"{of_function.rpartition('-')[2]} {metric['MetricName']}".strip()
    return values.get(name)


def evaluate(expression: str, values: Mapping[str, float | None]) -> float | None:
    """Evaluate an expression as CloudWatch does: MAX and SUM ignore metrics without data."""

    def over(function: Any) -> Any:
        return lambda series: function(present) if (present := [each for each in series if each is not None]) else None

    functions = {
        "MAX": over(max),
        "SUM": over(sum),
        "FILL": lambda value, other: other if value is None else value,
    }
    try:
        value: float | None = eval(expression, {"__builtins__": {}}, {**functions, **values})  # noqa: S307  # from our template
    except (TypeError, ZeroDivisionError):
        # Like CloudWatch, return no value for arithmetic with missing data and for a division by zero.
        return None
    return value


def state(alarm: str, values: Values) -> str:
    """Return the alarm's state when all evaluated periods have these values."""
    properties = TEMPLATE.resolved(alarm, *(TEMPLATE.properties(alarm).keys() - ACTIONS))
    value = value_of_queries(properties["Metrics"], values) if "Metrics" in properties else value_of(properties, values)
    if value is None:
        missing = {
            "breaching": "ALARM",
            "notBreaching": "OK",
            "missing": "INSUFFICIENT_DATA",
            "ignore": "INSUFFICIENT_DATA",
        }
        return missing[properties["TreatMissingData"]]
    threshold, operator = float(properties["Threshold"]), properties["ComparisonOperator"]
    is_over = value >= threshold if operator == "GreaterThanOrEqualToThreshold" else value > threshold
    return "ALARM" if is_over else "OK"


def value_of_queries(queries: Sequence[Mapping[str, Any]], values: Values) -> float | None:
    """Return the result of an alarm's metric math; an expression may use results of later queries."""
    results = {each["Id"]: value_of(each["MetricStat"]["Metric"], values) for each in queries if "MetricStat" in each}
    for each in reversed(queries):
        if "Expression" in each:
            results[each["Id"]] = evaluate(each["Expression"], results)
    (returned,) = (each["Id"] for each in queries if each.get("ReturnData", True))
    return results[returned]


def fires(alarm: str, values: Values) -> bool:
    """Return True if the alarm fires when all evaluated periods have these values."""
    return state(alarm, values) == "ALARM"


@each_row("alarm", ALARMS)
def test_alarm_without_data_does_not_fire(alarm: str) -> None:
    """Evaluate each alarm without metric data, as after the first deployment."""
    assert not fires(alarm, {})


def test_idle_deployment_fires_no_alarm() -> None:
    assert [alarm for alarm in ALARMS if fires(alarm, IDLE)] == []


@pytest.mark.parametrize("values", [{}, {"SweepLoggedErrors": 0.0, "Turns": 7.0}])
def test_sweep_alarm_reports_missing_data_if_sweep_does_not_run(values: Values) -> None:
    assert state("SweepErrorsAlarm", values) == "INSUFFICIENT_DATA"
    assert TEMPLATE.properties("SweepErrorsAlarm")["InsufficientDataActions"]


@each_row(
    ("alarm", "requests", "errors"),
    [
        ("ApiErrorsAlarm", "ApiFunction Invocations", "ApiLoggedErrors"),
        ("ApiErrorsAlarm", "ApiFunction Invocations", "5XXError"),
        ("TaskErrorsAlarm", "Turns", "TurnsFailed"),
        ("TaskErrorsAlarm", "TaskFunction Invocations", "TaskFunction Errors"),
        ("PushErrorsAlarm", "PushFunction Invocations", "PushLoggedErrors"),
    ],
)
def test_errors_alarm_fires_at_one_percent(alarm: str, requests: str, errors: str) -> None:
    """Fire if 1 % of all requests fail: a canary gets 10 % of them, so it may fail 10 % of its own requests."""
    assert fires(alarm, {**IDLE, requests: 12_000.0, errors: 120.0})
    assert not fires(alarm, {**IDLE, requests: 12_000.0, errors: 119.0})
    assert fires(alarm, {**IDLE, requests: 2.0, errors: 1.0})
    assert fires(alarm, {**IDLE, errors: 1.0})


@pytest.mark.parametrize(
    ("alarm", "values"),
    [
        ("ApiErrorsAlarm", {"ApiFunction Errors": 3.0}),
        ("ApiErrorsAlarm", {"5XXError": 3.0}),
        ("ApiErrorsAlarm", {"ApiLoggedErrors": 3.0}),
        ("TaskErrorsAlarm", {"TaskFunction Errors": 3.0}),
        ("TaskErrorsAlarm", {"TaskLoggedErrors": 3.0}),
        ("TaskErrorsAlarm", {"TurnsFailed": 3.0}),
        ("PushErrorsAlarm", {"PushFunction Errors": 3.0}),
        ("PushErrorsAlarm", {"PushLoggedErrors": 3.0}),
        ("SweepErrorsAlarm", {"SweepFunction Errors": 1.0}),
        ("SweepErrorsAlarm", {"SweepLoggedErrors": 1.0}),
        ("ThrottlesAlarm", {"ApiFunction Throttles": 1.0}),
        ("ThrottlesAlarm", {"TaskFunction Throttles": 1.0}),
        ("ThrottlesAlarm", {"PushFunction Throttles": 1.0}),
        ("ThrottlesAlarm", {"SweepFunction Throttles": 1.0}),
        ("SweepFoundWorkAlarm", {"SweepFound": 1.0}),
        ("PushGivenUpAlarm", {"PushGivenUp": 1.0}),
        ("InternalErrorsAlarm", {"InternalErrors": 3.0}),
        ("ApiLatencyAlarm", {"FirstTokenTime": 60_001.0}),
        ("TableThrottlesAlarm", {"ReadThrottleEvents": 10.0}),
        ("TableThrottlesAlarm", {"WriteThrottleEvents": 10.0}),
        ("TaskDeadLettersAlarm", {"ApproximateNumberOfMessagesVisible": 1.0}),
        ("PushDeadLettersAlarm", {"ApproximateNumberOfMessagesVisible": 1.0}),
        ("TaskQueueAgeAlarm", {"ApproximateAgeOfOldestMessage": 1801.0}),
        ("PushQueueAgeAlarm", {"ApproximateAgeOfOldestMessage": 1801.0}),
    ],
)
def test_alarm_fires_for_each_of_its_metrics(alarm: str, values: Values) -> None:
    assert fires(alarm, {**IDLE, **values})


def test_alarm_test_has_values_for_each_alarm() -> None:
    (mark,) = test_alarm_fires_for_each_of_its_metrics.pytestmark  # type: ignore[attr-defined]
    assert {alarm for alarm, _ in mark.args[1]} == set(ALARMS), (
        "Add values to test_alarm_fires_for_each_of_its_metrics."
    )


@each_row(
    ("alarm", "values"),
    [
        ("ApiErrorsAlarm", {"ApiFunction Invocations": 101.0, "ApiLoggedErrors": 1.0, "5XXError": 1.0}),
        ("TaskErrorsAlarm", {"TurnsFailed": 2.0, "Turns": 201.0}),
        ("InternalErrorsAlarm", {"InternalErrors": 2.0}),
        ("ApiLatencyAlarm", {"FirstTokenTime": 59_000.0}),
        ("TaskQueueAgeAlarm", {"ApproximateAgeOfOldestMessage": 1800.0}),
        ("TableThrottlesAlarm", {"WriteThrottleEvents": 1.0}),
        ("PushErrorsAlarm", {"PushGivenUp": 5.0, "PushRetries": 50.0}),
    ],
)
def test_alarm_ignores_transient_errors(alarm: str, values: Values) -> None:
    assert not fires(alarm, {**IDLE, **values})
