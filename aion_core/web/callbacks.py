"""Callbacks of remote agents: notifications about tasks for which this deployment's turns wait.

The path has no other credentials than the token of the callback. A request without a valid one is refused before its
body is read. A notification only brings a look forward, and the look asks the remote agent: so a forged or repeated one
costs a look at most.
"""

import asyncio
import json
import logging
import math
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.delegation.callback_address import PATH
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.remote_calls.callbacks import RemoteCallbacks
from aion_core.errors import StoreError
from aion_core.push.headers import TOKEN_HEADER
from aion_core.web.errors import RETRY_AFTER_SECONDS

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 1024
"""Maximum size of a notification that is read. A larger one is not read, and counts as the end of its task."""

BODY_SECONDS = 5.0
"""Time limit of a notification's body. A slower one counts as the end of its task too."""

PER_MINUTE = 60
"""Maximum number of notifications with one token in a minute: a remote agent may report each of its task's events."""

_NO_TOKEN = f"Send the token of this server's push config in {TOKEN_HEADER}. It is valid once."
_GOES_ON = {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "submitted", "working"}
"""States of a task that goes on, in A2A v1.0 and v0.3."""


def callback_route(callbacks: RemoteCallbacks, counters: RateLimits) -> Route:
    """Return the route of the callbacks."""

    async def answer(request: Request) -> Response:
        try:
            callback = await callbacks.find(request.headers.get(TOKEN_HEADER, ""))
            if callback is None:
                return _refused(401, _NO_TOKEN)
            if request.method != "POST":
                return _refused(405, "Send the notification by POST.", Allow="POST")
            wait = await counters.take_for_callback(callback.task.owner, callback.token_hash, per_minute=PER_MINUTE)
            if wait > 0:
                seconds = math.ceil(wait)
                return _refused(429, f"Try again in {seconds} s.", **{"Retry-After": str(seconds)})
            # A notification that the task goes on leaves the token valid: an agent may report each event.
            if not _goes_on(await _body(request)) and not await callbacks.use(callback):
                return _refused(401, _NO_TOKEN)
        except StoreError as error:
            logger.warning("A callback could not be noted: %s", error)
            return _refused(503, "Try again in a moment.", **{"Retry-After": str(RETRY_AFTER_SECONDS)})
        return Response(status_code=204, headers={"Cache-Control": "no-store"})

    # Starlette would refuse other methods before the token is checked.
    return Route(PATH, answer, methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])


async def _body(request: Request) -> bytes | None:
    """Return the body; None if it is too large, too slow or incomplete."""
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    return None
    except (TimeoutError, ClientDisconnect):
        return None
    return b"".join(chunks)


def _goes_on(body: bytes | None) -> bool:
    """Return True if a notification says that its task goes on: by a state, or by an artifact.

    A notification that cannot be read may report the end.
    """
    try:
        content: Any = json.loads(body or b"null")
    except (ValueError, RecursionError):
        return False
    if not isinstance(content, dict):
        return False
    if "artifactUpdate" in content or content.get("kind") == "artifact-update":
        return True
    # v1.0 sends a StreamResponse, v0.3 a task or its event.
    event = content.get("task") or content.get("statusUpdate") or content
    status = event.get("status") if isinstance(event, dict) else None
    return isinstance(status, dict) and status.get("state") in _GOES_ON


def _refused(status: int, text: str, **headers: str) -> Response:
    return JSONResponse({"error": {"code": status, "message": text}}, status, {"Cache-Control": "no-store", **headers})
