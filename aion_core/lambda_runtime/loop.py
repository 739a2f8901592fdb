"""Runtime loop: serve the invocations of a Lambda environment one after another with an ASGI app."""

import asyncio
import logging
import os
from functools import partial

from mangum.types import ASGI

from .application import Lifespan, call, receiver
from .http_event import EventReader, MalformedRequest, NotAnHttpEvent
from .invocation import Invocation, InvocationContext
from .log import REQUEST_ID
from .refusal import Refusal
from .rescue import Rescue
from .response import APP_FAILED, OUT_OF_TIME, Stage, StreamedResponse
from .runtime_api import ErrorReport, RuntimeApi
from .settings import RuntimeSettings
from .snapshot import wait_for_restore

logger = logging.getLogger(__name__)


async def serve(app: ASGI, settings: RuntimeSettings) -> None:
    """Serve invocations with the app until the cancellation of this coroutine by SIGTERM.

    With SnapStart, Lambda takes the snapshot after the app's startup. Raises InitError for a failed startup of the app,
    RestoreError for a failed restore, and OSError for a failed connection to Lambda.
    """
    async with Lifespan(app) as lifespan:
        if settings.snap_start:
            await wait_for_restore(RuntimeApi(settings.runtime_api), lifespan.state)
        loop = InvocationLoop(app, settings, lifespan)
        while True:
            await loop.serve_next()


class InvocationLoop:
    """Serves one invocation after another. An invocation lasts until the call of the app returns."""

    def __init__(self, app: ASGI, settings: RuntimeSettings, lifespan: Lifespan) -> None:
        self._app = app
        self._settings = settings
        self._lifespan = lifespan
        self._api = RuntimeApi(settings.runtime_api)
        self._events = EventReader(app)
        # The event loop holds tasks weakly: the garbage collector could close a call in the middle of a later invocation.
        self._unstopped: set[asyncio.Task[None]] = set()

    async def serve_next(self) -> None:
        """Wait for the next invocation and serve it. Raises OSError if the Runtime API returns no invocation."""
        invocation = await self._api.next()
        _trace(invocation.trace_id)
        context = InvocationContext.of(invocation, self._settings)
        app = self._app
        try:
            scope, body = self._events.read(invocation.payload, context)
        except NotAnHttpEvent as refusal:
            await self._refuse(invocation, refusal)
            return
        except MalformedRequest as error:
            logger.warning("Invocation %s: %s", invocation.request_id, error, extra=_log_fields(invocation))
            app, scope, body = Refusal(error), {"type": "http"}, b""
        scope["state"] = self._lifespan.state.copy()
        scope["aion.streamed"] = True
        response = StreamedResponse(begin := partial(self._api.begin_response, invocation))
        called = asyncio.create_task(call(app, scope, receiver(body, response.over), response.send))
        # Shorten the margin if little time is left, so that the app gets at least half of the time.
        margin = min(self._settings.deadline_margin, max(0.0, invocation.seconds_left() / 2))
        rescue = Rescue(app, scope, body, response, begin, invocation, margin / 2)
        try:
            await asyncio.wait({called}, timeout=invocation.seconds_left() - margin)
        finally:
            # Conclude the call when the app has ended, when the deadline is near, or when SIGTERM cancels this loop.
            await rescue.end()
            await self._conclude(called, response, invocation, grace=margin / 3)

    async def _conclude(
        self, call: asyncio.Task[None], response: StreamedResponse, invocation: Invocation, grace: float
    ) -> None:
        """Cancel the app call if it still runs, end the response, and wait for the Runtime API's acknowledgement."""
        stopped = not call.done()
        if stopped:
            self._unstopped.add(call)
            call.add_done_callback(self._unstopped.discard)
            call.cancel()
            await asyncio.wait({call}, timeout=grace)
        _log_outcome(call, response, invocation, stopped=stopped)
        try:
            async with asyncio.timeout(grace if stopped else max(grace, invocation.seconds_left() - grace)):
                await response.finish(OUT_OF_TIME if stopped else APP_FAILED)
                await response.acknowledged()
        except TimeoutError:
            logger.error(
                "Invocation %s: its client did not read the response in time",
                invocation.request_id,
                extra=_log_fields(invocation),
            )
        finally:
            response.close()

    async def _refuse(self, invocation: Invocation, refusal: NotAnHttpEvent) -> None:
        logger.warning(
            "Invocation %s refused: %s", invocation.request_id, refusal, exc_info=refusal, extra=_log_fields(invocation)
        )
        message = f"This function answers HTTP events only; the event is refused: {refusal}."
        try:
            await self._api.refuse(invocation, ErrorReport("Runtime.NotAnHttpEvent", message))
        except OSError as error:
            # Only log this failure. If it lasts, the next request for an invocation fails too and ends the process.
            logger.warning(
                "Invocation %s: the Runtime API did not accept the refusal: %r",
                invocation.request_id,
                error,
                extra=_log_fields(invocation),
            )


def _log_outcome(
    call: asyncio.Task[None], response: StreamedResponse, invocation: Invocation, *, stopped: bool
) -> None:
    """Log the failure of an app call, if any. The client receives only a generic message."""
    log_fields = _log_fields(invocation)
    error = None if not call.done() or call.cancelled() else call.exception()
    if error is not None:
        logger.error("Invocation %s: the app failed", invocation.request_id, exc_info=error, extra=log_fields)
    if not call.done():
        logger.error("Invocation %s: the app was cancelled and does not stop", invocation.request_id, extra=log_fields)
    elif stopped:
        left = invocation.seconds_left()
        logger.error(
            "Invocation %s: the app was stopped %.1f s before the deadline",
            invocation.request_id,
            left,
            extra=log_fields,
        )
    elif error is None and response.stage in (Stage.NOT_STARTED, Stage.HEADERS_BUFFERED, Stage.STREAMING):
        logger.error(
            "Invocation %s: the app returned without ending its response", invocation.request_id, extra=log_fields
        )


def _log_fields(invocation: Invocation) -> dict[str, str]:
    return {REQUEST_ID: invocation.request_id}


def _trace(trace_id: str | None) -> None:
    """Set the trace id for X-Ray and OpenTelemetry, like Lambda's own runtimes."""
    if trace_id:
        os.environ["_X_AMZN_TRACE_ID"] = trace_id
    else:
        os.environ.pop("_X_AMZN_TRACE_ID", None)
