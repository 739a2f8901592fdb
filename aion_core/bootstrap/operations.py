"""What the operator sees of a function: its log, its metrics, its traces; and what each invocation lets go of at its end."""

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from aion_core import log
from aion_core.errors import ConfigurationError
from aion_core.ports import Metrics, NoopTraces, NullMetrics, Traces
from aion_core.settings import Settings

logger = logging.getLogger(__name__)


class Operations:
    """What the operator sees of one function; made once per execution environment."""

    def __init__(self, metrics: Metrics, traces: Traces) -> None:
        self.metrics, self.traces = metrics, traces
        self._is_cold = True

    async def flushed(self, work: Awaitable[None]) -> None:
        """Await the work, then flush metrics and traces, outside of the event loop."""
        try:
            await work
        finally:
            self.metrics.flush()
            if not isinstance(self.traces, NoopTraces):
                await asyncio.to_thread(self.traces.flush)

    @contextmanager
    def invocation(self, context: Any) -> Iterator[None]:
        """Let what is logged within be found by the invocation, and what is counted and traced leave at its end.

        `context` is Lambda's. What nobody expected is logged whole before it rises to the runtime.
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
                self.traces.flush()


def build_operations(settings: Settings) -> Operations:
    """Return it; on Lambda lines and metrics are written as CloudWatch reads them, elsewhere lines as they were.

    Raises ConfigurationError where traces are configured and what sends them is not installed.
    """
    log.install()
    traces = _traces(settings)
    if not settings.on_lambda:
        return Operations(NullMetrics(), traces)
    from aion_core.aws import log_formatter
    from aion_core.aws.metrics import EMFMetrics

    log_formatter.install(settings.service, settings.log_level)
    return Operations(EMFMetrics(settings.service), traces)


def _traces(settings: Settings) -> Traces:
    if not settings.traces_to:
        return NoopTraces()
    try:
        from aion_core.otel import OTelTraces
    except ImportError as error:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and {error.name} is not here: install aion-lambda[otel]."
        ) from error
    return OTelTraces(settings.service)
