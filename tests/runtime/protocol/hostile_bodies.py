"""Hostile request bodies. `python -m tests.runtime.protocol.hostile_bodies` prints what the response to each body costs."""

import asyncio
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from starlette.types import ASGIApp

from aion_core.protocol.strict_json import MAX_VALUES
from tests.runtime.protocol.dialects import DIALECTS, Dialect, RpcDialect, RpcV03Dialect
from tests.support.agents.counting import talking
from tests.support.asgi import call
from tests.support.service import parts

SIZES = (100_000, 700_000)
LARGEST = 4_500_000
"""Approximate size of the largest bodies in bytes; `SIZES` has the sizes of the other bodies."""


@dataclass(frozen=True)
class HostileBody:
    """Request with a hostile body."""

    name: str
    target: str
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True)
class Cost:
    """Costs of one response."""

    body: HostileBody
    status: int
    answer: bytes
    cpu_seconds: float

    @property
    def is_error(self) -> bool:
        """Return True for an error response of either binding."""
        return self.status != 200 or b'"error":{' in self.answer


def _text(size: int) -> list[dict[str, Any]]:
    return [{"text": "x" * size}]


MESSAGES: dict[str, Callable[[int], dict[str, Any]]] = {
    "empty parts": lambda size: {"parts": [{}] * (size // 4)},
    "text parts": lambda size: {"parts": [{"text": "a"}] * (size // 15)},
    "parts of numbers": lambda size: {"parts": [1] * (size // 3)},
    "parts with wrong members": lambda size: {"parts": [{"text": 1, "metadata": 1}] * (size // 28)},
    "data of lists": lambda size: {"parts": [{"data": {"a": [[]] * (size // 4)}}]},
    "data of numbers": lambda size: {"parts": [{"data": {"a": [1] * (size // 3)}}]},
    "data of members": lambda size: {"parts": [{"data": {str(number): 1 for number in range(size // 12)}}]},
    "data of text": lambda size: {"parts": [{"data": {"a": "x" * size}}]},
    "data of escapes": lambda size: {"parts": [{"data": {"a": "\x01" * (size // 6)}}]},
    "long file names": lambda size: {"parts": [{"raw": "AAAA", "filename": "x" * (size // 4)}] * 4},
    "long url": lambda size: {"parts": [{"url": "x" * size}]},
    "references": lambda size: {"referenceTaskIds": ["a"] * (size // 5)},
    "references of numbers": lambda size: {"referenceTaskIds": [1] * (size // 3)},
    "extensions": lambda size: {"extensions": ["a"] * (size // 5)},
    "invisible names": lambda size: {"parts": [{"text": "a", "metadata": {" " * 60_000: 1}}] * (size // 60_000)},
    "file name of dots": lambda size: {"parts": [{"raw": "AAAA", "filename": "." * size}]},
    "metadata": lambda size: {"metadata": {str(number): 1 for number in range(size // 12)}},
    "unknown members": lambda size: {f"x{number}": 1 for number in range(size // 13)},
    "unknown list": lambda size: {"x" * (size // 2): [1] * 300},
    "long text": lambda size: {"parts": _text(size)},
    "text of quotation marks": lambda size: {"parts": [{"text": '"' * (size // 2)}]},
    "text of backslashes": lambda size: {"parts": [{"text": "\\" * (size // 2)}]},
    "text of commas": lambda size: {"parts": [{"text": ",{[" * (size // 3)}]},
    "text of surrogates": lambda size: {"parts": [{"text": "\ud800" * (size // 6)}]},
    "base64": lambda size: {"parts": [{"raw": "AAAA" * (size // 4)}]},
    "invalid base64": lambda size: {"parts": [{"raw": "AAAA" * (size // 4) + "!"}]},
    "long messageId": lambda size: {"messageId": "m" * size},
    "long role": lambda size: {"role": "\x01" * (size // 6)},
}
"""Members of a message by the name of the attack."""

VALUES = MAX_VALUES - 40
"""Number of values in a full message; the request around the message has up to 40 further values."""

FULL: dict[str, dict[str, Any]] = {
    "full of lists": {"parts": [{"data": {"a": [[[[]]]] * (VALUES // 4)}}]},
    "full of objects": {"parts": [{"data": {"a": [{"a": {}}] * (VALUES // 3)}}]},
    "full of members": {"parts": [{"data": {str(number): 1 for number in range(VALUES)}}]},
    "full of numbers": {"parts": [{"data": {"a": [1] * VALUES}}]},
    "full of lists in metadata": {"metadata": {"a": [[]] * (VALUES // 2)}},
    "full of members in metadata": {"metadata": {str(number): 1 for number in range(VALUES // 2)}},
    "full of parts": {
        "parts": [{"text": "a", "metadata": {str(number): 1 for number in range(VALUES // 256 - 5)}}] * 256
    },
}
"""Members of accepted messages with almost the maximum number of values."""

LARGEST_NAMES = ("long text", "long file names", "base64", "data of text", "invisible names", "file name of dots")
"""Names of the attacks with one large value or name."""

RAW: dict[str, Callable[[int], bytes]] = {
    "open lists": lambda size: b"[" * size,
    "open objects": lambda size: b'{"a":' * (size // 5),
    "quotation marks": lambda size: b'"' * size,
    "backslashes": lambda size: b'{"a":"' + b"\\" * size,
    "digits": lambda size: b'{"a":' + b"9" * size + b"}",
    "spaces": lambda size: b" " * size + b"{}",
    "equal members": lambda size: b"{" + b'"a":1,' * (size // 6) + b'"a":1}',
    "no JSON": lambda size: b"<" * size,
}
"""Whole bodies by the name of the attack."""


def hostile_bodies(*sizes: int, dialects: Iterable[Dialect] = DIALECTS) -> Iterator[HostileBody]:
    """Generate every attack in these sizes and dialects."""
    for size, dialect in product(sizes, dialects):
        plain = dialect.request("SendMessage", {})
        assert plain is not None
        for name, members in MESSAGES.items():
            yield _message(f"{name}, {size}, {dialect.name}", dialect, members(size))
        for name, whole in RAW.items():
            yield HostileBody(f"{name}, {size}, {dialect.name}", plain.target, plain.headers, whole(size))
        if isinstance(dialect, RpcDialect):
            method = "message/send" if isinstance(dialect, RpcV03Dialect) else "SendMessage"
            for name, envelope in (
                ("long id", {"id": "i" * size, "method": method}),
                ("long method", {"id": 1, "method": method * (size // 12)}),
            ):
                content = json.dumps({"jsonrpc": "2.0", "params": {}, **envelope}).encode()
                yield HostileBody(f"{name}, {size}, {dialect.name}", plain.target, plain.headers, content)


def full_bodies(dialects: Iterable[Dialect] = DIALECTS) -> Iterator[HostileBody]:
    """Generate every accepted message with almost the maximum number of values."""
    return (large_body(name, dialect) for dialect, name in product(dialects, FULL))


def largest_bodies(dialects: Iterable[Dialect] = DIALECTS) -> Iterator[HostileBody]:
    """Generate messages of the largest size with long values or names; long texts outside of data parts are refused."""
    return (large_body(name, dialect) for dialect, name in product(dialects, LARGEST_NAMES))


def large_body(name: str, dialect: Dialect) -> HostileBody:
    """Return the message of this name: with almost the maximum number of values, or of the largest size."""
    if name in FULL:
        return _message(f"{name}, {dialect.name}", dialect, FULL[name])
    return _message(f"{name}, {LARGEST}, {dialect.name}", dialect, MESSAGES[name](LARGEST))


def usual_bodies() -> Iterator[HostileBody]:
    """Generate a message of one letter in every dialect."""
    for dialect in DIALECTS:
        yield _message(f"one letter, {dialect.name}", dialect, {})


def _message(name: str, dialect: Dialect, members: Mapping[str, Any]) -> HostileBody:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}], **members}
    sent = dialect.request("SendMessage", {"message": message})
    assert sent is not None
    return HostileBody(name, sent.target, sent.headers, sent.body)


def hostile_app() -> ASGIApp:
    """Return the app that receives the hostile bodies; it has one agent."""
    return parts(talking(1)).app()


async def cost_of(app: ASGIApp, body: HostileBody) -> Cost:
    """Send the body to the app, and return the response with its cost in this process."""
    since = time.process_time()
    answer = await call(app, "POST", body.target, body.content, body.headers)
    return Cost(body, answer.status, answer.body, time.process_time() - since)


async def costs_of(app: ASGIApp, bodies: Iterable[HostileBody]) -> tuple[list[Cost], float]:
    """Send the bodies to the app. Return their costs, and the median processor time of a usual message in seconds."""
    for body in usual_bodies():
        await cost_of(app, body)  # call once before, because the first requests import modules
    gc.freeze()  # exclude the objects of the test session from garbage collections, which would take 0.1 s
    usual = [(await cost_of(app, body)).cpu_seconds for _ in range(5) for body in usual_bodies()]
    return [await cost_of(app, body) for body in bodies], statistics.median(usual)


def allowed_bytes(cost: Cost) -> int:
    """Return the allowed size of the response: 8 KB for an error, otherwise four times the request, at least 8 KB."""
    return 8 * 1024 if cost.is_error else max(8 * 1024, 4 * len(cost.body.content))


def allowed_cpu_seconds(body: HostileBody) -> float:
    """Return the allowed processor time: 60 ms for each started megabyte of the body."""
    return 0.06 * -(-len(body.content) // 1_000_000)


def row(cost: Cost) -> str:
    """Return a line of the printed table."""
    size, answer = len(cost.body.content), len(cost.answer)
    return f"{cost.body.name:62} {size:9} B {answer:8} B {cost.cpu_seconds * 1000:7.1f} ms  {cost.status}"


async def _print() -> None:
    costs, usual = await costs_of(hostile_app(), [*full_bodies(), *hostile_bodies(*SIZES, LARGEST)])
    print(*map(row, costs), f"A usual message takes {usual * 1000:.1f} ms.", sep="\n")


if __name__ == "__main__":
    asyncio.run(_print())
