"""x"""

from collections import defaultdict

from aion_core.telemetry import Metric


class MemoryMetrics:
    """`Metrics` for tests. It stores every value, even before a flush."""

    def __init__(self) -> None:
        self.values: dict[Metric, list[float]] = defaultdict(list)
        self.agents: dict[Metric, set[str]] = defaultdict(set)
        self.unflushed = 0
        """Number of values since the last flush."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """See `Metrics.count`."""
        self.values[metric].append(value)
        self.agents[metric].add(agent)
        self.unflushed += 1

    def flush(self) -> None:
        """See `Metrics.flush`."""
        self.unflushed = 0

    def total(self, metric: Metric) -> float:
        """Return the sum of a metric's values, 0 if it has none."""
        return sum(self.values.get(metric, ()))
