"""Limit of requests per minute: a refused caller is served after the seconds that the response names, and not long before."""

import math

from starlette.responses import PlainTextResponse

from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.local.memory.table import MemoryTable
from aion_core.web.middleware.rate_limit import RateLimitMiddleware
from aion_core.web.rest.refusals import http_refusal
from tests.support.asgi import ask
from tests.support.clock import ManualClock
from tests.support.rows import each_row


@each_row("wait", [0.001, 0.499, 0.5, 0.999, 1, 1.001, 1.5, 2.5, 20, 59.4, 59.999, 60])
async def test_refused_caller_is_served_after_named_wait(wait: float) -> None:
    clock = ManualClock()
    served = PlainTextResponse("served")
    app = RateLimitMiddleware(
        served, RateLimits(MemoryTable(clock), clock), per_minute=1, public=(), refuse=http_refusal
    )
    assert (await ask(app, "GET", "/tasks")).status_code == 200
    clock.move(60 - wait)
    refused = await ask(app, "GET", "/tasks")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, str(math.ceil(wait)))
    clock.move(int(refused.headers["Retry-After"]))
    assert (await ask(app, "GET", "/tasks")).status_code == 200
