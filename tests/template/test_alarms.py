"""When each alarm rings: its expression worked out for what CloudWatch would have counted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aion_core.packaging.plan import NOWHERE
from aion_core.template.reader import ALARM, Template

TEMPLATE = Template(Path(__file__).parents[2] / "template.yaml", NOWHERE)
ALARMS = TEMPLATE.resources(ALARM)

Counted = Mapping[str, float]
"""What was counted in one period, by the metric's name; of what is not in it nothing was heard."""

IDLE = {"SweepFunction Errors": 0.0, "SweepFound": 0.0, "SweepFunction Throttles": 0.0}
"""A deployment that nobody calls: the sweep runs, finds nothing, and no queue says a word."""


def of(metric: Mapping[str, Any], counted: Counted) -> float | None:
    """Return what was counted of a metric; of AWS's own by the function's name, where there is one."""
    of_function = next((each["Value"] for each in metric.get("Dimensions", []) if each["Name"] == "FunctionName"), "")
    name = f"{of_function.rpartition('-')[2]} {metric['MetricName']}".strip()
    return counted.get(name)


def worked_out(expression: str, values: Mapping[str, float | None]) -> float | None:
    """Work an expression out as CloudWatch does: MAX and SUM of several pass by those of which nothing was heard."""

    def over(function: Any) -> Any:
        return lambda series: function(heard) if (heard := [each for each in series if each is not None]) else None

    words = {"MAX": over(max), "SUM": over(sum), "FILL": lambda value, other: other if value is None else value}
    try:
        value: float | None = eval(expression, {"__builtins__": {}}, {**words, **values})  # noqa: S307  # ours
    except TypeError:
        # Arithmetic with what was not heard of.
        return None
    return value


def rings(alarm: str, counted: Counted) -> bool:
    """Tell whether the alarm rings when this is counted in each of its periods."""
    said = TEMPLATE.resolved(alarm, *(TEMPLATE.properties(alarm).keys() - {"AlarmActions"}))
    if "Metrics" in said:
        values = {
            each["Id"]: of(each["MetricStat"]["Metric"], counted) for each in said["Metrics"] if "MetricStat" in each
        }
        (told,) = (each for each in said["Metrics"] if each.get("ReturnData", True))
        value = worked_out(told["Expression"], values)
    else:
        value = of(said, counted)
    if value is None:
        return bool(said["TreatMissingData"] == "breaching")
    threshold = float(said["Threshold"])
    return value >= threshold if said["ComparisonOperator"] == "GreaterThanOrEqualToThreshold" else value > threshold


def test_nothing_rings_where_nobody_calls() -> None:
    assert [alarm for alarm in ALARMS if rings(alarm, IDLE)] == []


def test_a_sweep_that_is_not_called_rings_whatever_else_was_heard() -> None:
    assert rings("SweepErrorsAlarm", {})
    assert rings("SweepErrorsAlarm", {"SweepLoggedErrors": 0.0, "Turns": 7.0})


@pytest.mark.parametrize(
    ("alarm", "counted"),
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
        ("ApiLatencyAlarm", {"FirstTokenTime": 60_001.0}),
        ("TableThrottlesAlarm", {"ReadThrottleEvents": 10.0}),
        ("TableThrottlesAlarm", {"WriteThrottleEvents": 10.0}),
        ("TaskDeadLettersAlarm", {"ApproximateNumberOfMessagesVisible": 1.0}),
        ("PushDeadLettersAlarm", {"ApproximateNumberOfMessagesVisible": 1.0}),
        ("TaskQueueAgeAlarm", {"ApproximateAgeOfOldestMessage": 1801.0}),
        ("PushQueueAgeAlarm", {"ApproximateAgeOfOldestMessage": 1801.0}),
    ],
)
def test_an_alarm_rings_for_any_one_of_what_it_is_about(alarm: str, counted: Counted) -> None:
    assert rings(alarm, {**IDLE, **counted})


def test_it_is_told_for_each_alarm_what_makes_it_ring() -> None:
    (mark,) = test_an_alarm_rings_for_any_one_of_what_it_is_about.pytestmark  # type: ignore[attr-defined]
    assert {alarm for alarm, _ in mark.args[1]} == set(ALARMS)


@pytest.mark.parametrize(
    ("alarm", "counted"),
    [
        ("ApiErrorsAlarm", {"ApiLoggedErrors": 1.0, "5XXError": 1.0, "ApiFunction Errors": 1.0}),
        ("TaskErrorsAlarm", {"TurnsFailed": 2.0, "Turns": 200.0}),
        ("ApiLatencyAlarm", {"FirstTokenTime": 59_000.0}),
        ("TaskQueueAgeAlarm", {"ApproximateAgeOfOldestMessage": 1800.0}),
        ("TableThrottlesAlarm", {"WriteThrottleEvents": 1.0}),
        ("PushErrorsAlarm", {"PushGivenUp": 5.0, "PushRetries": 50.0}),
    ],
)
def test_an_alarm_does_not_ring_for_what_mends_itself(alarm: str, counted: Counted) -> None:
    assert not rings(alarm, {**IDLE, **counted})
