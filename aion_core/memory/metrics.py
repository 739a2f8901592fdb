"""What is counted, in a dict: for tests and the simulation."""

from collections import defaultdict

from aion_core.ports import Metric


class MemoryMetrics:
    """`ports.Metrics`: keeps every value, flushed or not."""

    def __init__(self) -> None:
        self.values: dict[Metric, list[float]] = defaultdict(list)
        self.agents: dict[Metric, set[str]] = defaultdict(set)
        self.unflushed = 0
        """How many values nobody has let go of."""

    def count(self, metric: Metric, value: float = 1.0, *, agent: str = "") -> None:
        """See `ports.Metrics.count`."""
        self.values[metric].append(value)
        self.agents[metric].add(agent)
        self.unflushed += 1

    def flush(self) -> None:
        """See `ports.Metrics.flush`."""
        self.unflushed = 0

    def total(self, metric: Metric) -> float:
        """Return the sum of the metric's values; 0 where it has none."""
        return sum(self.values.get(metric, ()))
