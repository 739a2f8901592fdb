"""Telemetry of a function: logging, metrics and traces, flushed at the end of each invocation."""

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from aion_core import log
from aion_core.bootstrap.exporters import Exporters
from aion_core.errors import ConfigurationError, OtherLayout, TableMissing
from aion_core.settings import Settings
from aion_core.telemetry import Metrics, NoopTraces, NullMetrics, Traces

logger = logging.getLogger(__name__)


@contextmanager
def unusable_table_logged() -> Iterator[None]:
    """Context manager for one queue message: log an ERROR if the table is missing or has another layout.

    Only an operator can restore the table, and Powertools logs a WARNING for each failed message.
    """
    try:
        yield
    except (TableMissing, OtherLayout) as error:
        logger.error("%s", error)
        raise


class Telemetry:
    """Metrics and traces of one function. Created once per process."""

    def __init__(self, metrics: Metrics, traces: Traces, *, freezes: bool = False) -> None:
        """`freezes` is True on Lambda, which freezes the process between two invocations."""
        self.metrics, self.traces = metrics, traces
        self._exporters = Exporters(traces, freezes=freezes)
        self._is_cold = True

    async def flush(self) -> None:
        """Write the metrics, and let the exporters of traces send what they hold."""
        self.metrics.flush()
        if self._exporters.hold:
            await asyncio.to_thread(self._exporters.flush)

    async def flushed(self, work: Awaitable[None]) -> None:
        """Await the work, then flush the metrics and traces, also if the work has failed."""
        try:
            await work
        finally:
            await self.flush()

    @contextmanager
    def invocation(self, context: Any) -> Iterator[None]:
        """Label log lines in this block with the invocation. Flush metrics and traces at the end of the block.

        `context` is Lambda's context object. Unexpected errors are logged before they propagate to the runtime.
        """
        request_id = getattr(context, "aws_request_id", "")
        cold_start, self._is_cold = self._is_cold, False
        with log.request(request_id or str(uuid4()), function_request_id=request_id, cold_start=cold_start):
            try:
                yield
            except Exception:
                logger.exception("The invocation has failed.")
                raise
            finally:
                self.metrics.flush()
                self._exporters.flush()


def build_telemetry(settings: Settings) -> Telemetry:
    """Configure logging and return the telemetry. On Lambda, log lines and metrics have CloudWatch's formats.

    Raises ConfigurationError if traces are configured without the `otel` extra installed.
    """
    log.install()
    traces = _traces(settings)
    if not settings.on_lambda:
        return Telemetry(NullMetrics(), traces)
    from aion_core.aws import log_formatter
    from aion_core.aws.metrics import EMFMetrics

    log_formatter.install(settings.service, settings.log_level)
    return Telemetry(EMFMetrics(settings.service), traces, freezes=True)


def _traces(settings: Settings) -> Traces:
    if not settings.traces_to:
        return NoopTraces()
    try:
        from aion_core.otel import OTelTraces
    except ImportError as error:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT enables traces, but {error.name} is missing: install aion-lambda[otel]."
        ) from error
    return OTelTraces(settings.service)
