"""One invocation after another, each until its app call has returned."""

import asyncio
import logging
import os

from mangum.types import ASGI, Message, Receive, Scope, Send

from .application import Lifespan
from .invocation import EventReader, Invocation, InvocationContext, NotAnHttpEvent
from .log import REQUEST_ID
from .response import APP_FAILED, OUT_OF_TIME, Response, Stage
from .runtime_api import ErrorReport, RuntimeApi
from .settings import Settings

logger = logging.getLogger(__name__)


async def serve(app: ASGI, settings: Settings) -> None:
    """Serve invocations until cancelled (SIGTERM); `InitError` if the app does not start, OSError if Lambda is gone."""
    async with Lifespan(app) as lifespan:
        loop = InvocationLoop(app, settings, lifespan)
        while True:
            await loop.serve_next()


class InvocationLoop:
    """Takes an invocation, runs the app on it, and is ready for the next one when the app rests."""

    def __init__(self, app: ASGI, settings: Settings, lifespan: Lifespan) -> None:
        self._app = app
        self._settings = settings
        self._lifespan = lifespan
        self._api = RuntimeApi(settings.runtime_api)
        self._events = EventReader(app)

    async def serve_next(self) -> None:
        """Wait for an invocation and see it through; OSError when there is no next one."""
        invocation = await self._api.next()
        _trace(invocation.trace_id)
        context = InvocationContext.of(invocation, self._settings)
        try:
            scope, body = self._events.read(invocation.payload, context)
        except NotAnHttpEvent as refusal:
            await self._refuse(invocation, refusal)
            return
        scope["state"] = self._lifespan.state.copy()
        scope["aion.streamed"] = True
        response = Response(lambda: self._api.begin_response(invocation))
        call = asyncio.create_task(self._call(scope, _receive(body, response), response.send))
        # A function may have less time in all than the margin; then half of it is for the app.
        margin = min(self._settings.deadline_margin, max(0.0, invocation.seconds_left() / 2))
        try:
            await asyncio.wait({call}, timeout=invocation.seconds_left() - margin)
        finally:
            # The app is done, or the deadline is near, or this very loop is being cancelled by SIGTERM.
            await self._conclude(call, response, invocation, grace=margin / 3)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A coroutine of its own: an app that fails before its first await (one of ASGI 2, say) fails in its task too.
        await self._app(scope, receive, send)

    async def _conclude(
        self, call: asyncio.Task[None], response: Response, invocation: Invocation, grace: float
    ) -> None:
        """Leave nothing of the invocation behind: no running app, no open response."""
        stopped = not call.done()
        if stopped:
            call.cancel()
            await asyncio.wait({call}, timeout=grace)
        _log_outcome(call, response, invocation, stopped=stopped)
        try:
            async with asyncio.timeout(grace if stopped else max(grace, invocation.seconds_left() - grace)):
                await response.finish_for_the_app(OUT_OF_TIME if stopped else APP_FAILED)
                await response.receipt()
        except TimeoutError:
            logger.error(
                "Invocation %s: its reader did not take the response in time",
                invocation.request_id,
                extra=_found_by(invocation),
            )
        finally:
            response.close()

    async def _refuse(self, invocation: Invocation, refusal: NotAnHttpEvent) -> None:
        logger.warning(
            "Invocation %s refused: %s", invocation.request_id, refusal, exc_info=refusal, extra=_found_by(invocation)
        )
        message = f"This function answers HTTP events only; the event is refused: {refusal}."
        try:
            await self._api.refuse(invocation, ErrorReport("Runtime.NotAnHttpEvent", message))
        except OSError as error:
            # If the Runtime API is gone for good, asking it for the next invocation will tell.
            logger.warning(
                "Invocation %s: the refusal was not taken: %r",
                invocation.request_id,
                error,
                extra=_found_by(invocation),
            )


def _log_outcome(call: asyncio.Task[None], response: Response, invocation: Invocation, *, stopped: bool) -> None:
    """Tell the log what the client is not told."""
    found_by = _found_by(invocation)
    error = None if not call.done() or call.cancelled() else call.exception()
    if error is not None:
        logger.error("Invocation %s: the app failed", invocation.request_id, exc_info=error, extra=found_by)
    if not call.done():
        logger.error("Invocation %s: the app was cancelled and does not stop", invocation.request_id, extra=found_by)
    elif stopped:
        left = invocation.seconds_left()
        logger.error(
            "Invocation %s: the app was stopped %.1f s before the deadline", invocation.request_id, left, extra=found_by
        )
    elif error is None and response.stage in (Stage.SILENT, Stage.ANNOUNCED, Stage.STREAMING):
        logger.error(
            "Invocation %s: the app returned without ending its response", invocation.request_id, extra=found_by
        )


def _found_by(invocation: Invocation) -> dict[str, str]:
    return {REQUEST_ID: invocation.request_id}


def _receive(body: bytes, response: Response) -> Receive:
    """ASGI's `receive`: the body once, and `http.disconnect` when the response is over.

    Lambda does not report a client that leaves, and a response that lost its connection says no more than that:
    frameworks stop an app that hears of a disconnect, and a run does not depend on its reader.
    """
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if unread:
            return unread.pop()
        await response.over.wait()
        return {"type": "http.disconnect"}

    return receive


def _trace(trace_id: str | None) -> None:
    """Let X-Ray and OpenTelemetry find the trace where Lambda's own runtimes put it."""
    if trace_id:
        os.environ["_X_AMZN_TRACE_ID"] = trace_id
    else:
        os.environ.pop("_X_AMZN_TRACE_ID", None)
