"""Correct and broken ASGI apps for the tests of the Lambda runtime loop; the request's path selects one."""

import asyncio
import json
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tests.support.e2e.gates import gate

Scope = dict[str, Any]
Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

SSE = (b"content-type", b"text/event-stream")
PLAIN = (b"content-type", b"text/plain")


async def start(send: Send, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [*headers]})


async def body(send: Send, data: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    """Stream two chunks, and wait at the barrier `second` between them."""
    await start(send, 200, SSE)
    await body(send, b"data: one\n\n")
    await gate("second")
    await body(send, b"data: two\n\n")
    await body(send, b"", more=False)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the request and its Lambda context as JSON."""
    request = await receive()
    context = scope["aws.context"]
    told = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "body": request["body"].decode(),
        "state": dict(scope["state"]),
        "event_path": scope["aws.event"].get("rawPath"),
        "request_id": context.aws_request_id,
        "arn": context.invoked_function_arn,
        "function": [context.function_name, context.function_version, context.memory_limit_in_mb],
        "log": [context.log_group_name, context.log_stream_name],
        "has_time": 0 < context.get_remaining_time_in_millis() <= 900_000,
        "trace": os.environ.get("_X_AMZN_TRACE_ID"),
        "process": os.getpid(),
        "same_loop": scope["state"]["loop"] == id(asyncio.get_running_loop()),
    }
    scope["state"]["left behind"] = True
    await start(send, 200, (b"content-type", b"application/json"))
    await body(send, json.dumps(told).encode(), more=False)


async def one_line(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, PLAIN)
    await body(send, b"hello", more=False)


async def midstream_error(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, SSE)
    await body(send, b"data: one\n\n")
    raise RuntimeError("the secret reason")


async def early_error(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("the secret reason")


async def announced_error(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, SSE, (b"set-cookie", b"session=abc"))
    raise RuntimeError("the secret reason")


async def too_many_headers(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, (b"x-long", b"x" * 20_000))
    await body(send, b"", more=False)


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Return without a response."""


async def unfinished(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, PLAIN)
    await body(send, b"to be cont")


async def no_content(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 204)
    await body(send, b"", more=False)


async def empty_writes(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, PLAIN)
    for data in (b"", b"a", b"", b"", b"b", b""):
        await body(send, data)
    await body(send, b"c", more=False)


async def cookies(scope: Scope, receive: Receive, send: Send) -> None:
    await start(
        send,
        200,
        (b"Set-Cookie", b"a=1; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
        (b"Vary", b"Accept"),
        (b"set-cookie", b"b=2"),
        (b"vary", b"Origin"),
        (b"x-name", "café".encode("latin-1")),
    )
    await body(send, b"ok", more=False)


async def rests_late(scope: Scope, receive: Receive, send: Send) -> None:
    """Send the response, then pass further barriers: a faulty loop would already request the next invocation."""
    await start(send, 200, PLAIN)
    await body(send, b"answered", more=False)
    for number in range(20):
        await gate(f"after-{number}")
    await gate("rest")


async def leaves_a_task_behind(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond, and leave an asyncio task that passes barriers whenever the event loop runs."""

    async def behind() -> None:
        for number in range(20):
            await gate(f"behind-{number}")

    await one_line(scope, receive, send)
    scope["state"]["tasks"] = asyncio.create_task(behind())


async def hears_the_end(scope: Scope, receive: Receive, send: Send) -> None:
    """Wait for the disconnect while sending the response, as frameworks do; print whether it came too early."""
    await receive()
    heard = asyncio.create_task(receive())
    await start(send, 200, PLAIN)
    await body(send, b"one")
    await gate("listening")
    early = heard.done()
    await body(send, b"two", more=False)
    print("heard early:", early, "then:", (await heard)["type"])


async def says_too_much(scope: Scope, receive: Receive, send: Send) -> None:
    await one_line(scope, receive, send)
    await body(send, b"and another thing", more=False)


async def runs_unheard(scope: Scope, receive: Receive, send: Send) -> None:
    """Continue to stream after the test has broken the connection; print whether the disconnect came too early."""
    await receive()
    heard = asyncio.create_task(receive())
    await start(send, 200, SSE)
    await body(send, b"data: one\n\n")
    await gate("broken")
    for _ in range(1000):
        await body(send, b"x" * 1000)
    early = heard.done()
    await body(send, b"", more=False)
    print("ran to its end; heard early:", early, "then:", (await heard)["type"])
    await gate("finished")


async def never_returns(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, SSE)
    await body(send, b"data: one\n\n")
    await gate("never")


async def never_answers(scope: Scope, receive: Receive, send: Send) -> None:
    await gate("never")


async def never_stops_sending(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, PLAIN)
    while True:
        await body(send, b"x" * 1000)


async def refuses_to_stop(scope: Scope, receive: Receive, send: Send) -> None:
    """Ignore the cancellation; send another chunk of this response while the next invocation runs."""
    await start(send, 200, PLAIN)
    await body(send, b"one")
    try:
        await gate("never")
    except asyncio.CancelledError:
        await gate("still here")
    await body(send, b"two", more=False)
    await gate("spoke up")


async def blocks_a_thread(scope: Scope, receive: Receive, send: Send) -> None:
    """Wait in a thread, so that a cancellation cannot stop the wait."""

    def block() -> None:
        asyncio.run(gate("in a thread"))

    await asyncio.to_thread(block)


async def huge(scope: Scope, receive: Receive, send: Send) -> None:
    """Send 8 MB in one message, then 8 MB in 1 KB messages."""
    await start(send, 200, PLAIN)
    await body(send, b"x" * 8 * 1024 * 1024)
    for _ in range(8 * 1024):
        await body(send, b"y" * 1024)
    await body(send, b"", more=False)


async def cancels_itself(scope: Scope, receive: Receive, send: Send) -> None:
    raise asyncio.CancelledError


async def blocks(scope: Scope, receive: Receive, send: Send) -> None:
    """Block the event loop until after the deadline, before an answer."""
    time.sleep(float(scope["query_string"]))
    print("no longer blocked", flush=True)
    await one_line(scope, receive, send)


async def blocks_after_headers(scope: Scope, receive: Receive, send: Send) -> None:
    """Block the event loop before the first part of the body, when the runtime has buffered status and headers."""
    await start(send, 200, PLAIN)
    time.sleep(float(scope["query_string"]))
    print("no longer blocked", flush=True)
    await body(send, b"hello", more=False)


async def blocks_a_connection(scope: Scope, receive: Receive, send: Send) -> None:
    """Block the event loop while the runtime opens the connection for the response."""

    def block() -> None:
        time.sleep(float(scope["query_string"]))
        print("no longer blocked", flush=True)

    await start(send, 200, PLAIN)
    asyncio.get_running_loop().call_soon(block)
    await body(send, b"hello", more=False)


async def blocks_a_stream(scope: Scope, receive: Receive, send: Send) -> None:
    await start(send, 200, SSE)
    await body(send, b"data: one\n\n")
    time.sleep(float(scope["query_string"]))
    print("no longer blocked", flush=True)
    await body(send, b"data: two\n\n", more=False)


PATHS: dict[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
    f"/{behaviour.__name__}": behaviour
    for behaviour in (
        announced_error, blocks, blocks_a_connection, blocks_a_stream, blocks_a_thread, blocks_after_headers, cancels_itself, cookies, early_error, echo, empty_writes, hears_the_end, huge,
        leaves_a_task_behind, midstream_error, never_answers, never_returns, never_stops_sending, no_content, nothing,
        one_line, refuses_to_stop, rests_late, runs_unheard, says_too_much, stream, too_many_headers, unfinished,
    )
}  # fmt: skip


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        scope["state"] |= {"started": "yes", "loop": id(asyncio.get_running_loop())}
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("lifespan over")
        await send({"type": "lifespan.shutdown.complete"})
        return
    await PATHS[scope["path"]](scope, receive, send)


async def _restored(scope: Scope, receive: Receive, send: Send, hook: Callable[[], None]) -> None:
    if scope["type"] == "lifespan":
        await receive()
        random.seed(1)
        scope["state"]["aion.after_restore"] = [hook]
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await start(send, 200, PLAIN)
    await body(send, f"{len(_renewed)} {random.random()}".encode(), more=False)


_renewed: list[str] = []


async def restored(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of restores, and with a random number; the startup seeds the random generator with 1."""
    await _restored(scope, receive, send, lambda: _renewed.append("once"))


async def fails_after_restore(scope: Scope, receive: Receive, send: Send) -> None:
    await _restored(scope, receive, send, lambda: [][0])


async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    await one_line(scope, receive, send)


async def fails_to_start(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no table"})


async def crashes_at_start(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    raise RuntimeError("no table")


async def is_cancelled_at_start(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    raise asyncio.CancelledError("no table")


async def waits_at_start(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await gate("starting")


async def hangs_at_shutdown(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await gate("never")


def of_asgi_2(scope: Scope) -> None:
    """Accept only a scope, as an ASGI 2 app does, so that the runtime loop's call with three arguments fails."""


not_an_app = "a string"
