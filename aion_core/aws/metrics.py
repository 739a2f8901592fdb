"""Metrics as log lines in CloudWatch's embedded metric format, written with Powertools."""

import logging
from collections import defaultdict

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from aion_core.telemetry import Metric

logger = logging.getLogger(__name__)

NAMESPACE = "aion"


class EMFMetrics:
    """Metrics port for CloudWatch (`Metrics`). At the end of an invocation it writes one log line per agent.

    The only dimension of the metrics is the service. The agent is a field of the line but no dimension: logs can be
    queried by agent, and CloudWatch bills no separate metrics per agent.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        self._counted: dict[str, dict[Metric, list[float]]] = {}

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """Record a value of a metric in memory. See `Metrics.count`."""
        self._counted.setdefault(agent, defaultdict(list))[metric].append(value)

    def flush(self) -> None:
        """Write the recorded values as one log line per agent. See `Metrics.flush`."""
        counted, self._counted = self._counted, {}
        for agent, metrics in counted.items():
            try:
                self._write(agent, metrics)
            except Exception:
                logger.exception("The metrics could not be written.")

    def _write(self, agent: str, metrics: dict[Metric, list[float]]) -> None:
        line = EphemeralMetrics(namespace=NAMESPACE, service=self._service)
        if agent:
            line.add_metadata("agent", agent)
        for metric, values in metrics.items():
            unit = MetricUnit.Milliseconds if metric.in_milliseconds else MetricUnit.Count
            # Write counts as their sum, but times as single values, so that CloudWatch can calculate percentiles.
            for value in values if metric.in_milliseconds else [sum(values)]:
                line.add_metric(metric.value, unit, value)
        if line.metric_set:
            line.flush_metrics()
