"""Scenarios of the benchmark. A scenario returns the figures of one server in one round."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from uuid import uuid4

from bench.client import Connection, request
from bench.servers import Server, server

Figures = dict[str, float]

SENDS = 150
"""Number of blocking sends in one measurement."""
TURNS = 200
"""Number of turns of the context in the scenario of a long context."""


@dataclass(frozen=True)
class Scenario:
    """Scenario of the benchmark: the work that a server does while it is measured."""

    name: str
    run: Callable[[Server], Awaitable[Figures]]
    servers: tuple[str, ...] = ("aion", "sdk", "floor")
    store: Literal["memory", "sqlite", "dev"] = "memory"
    """Where the servers store: in memory, or in SQLite files. With "dev", `aion` is `aion dev` on SQLite files."""


def streams(chunks: int, *, pause: float = 0.0, version: str = "1.0") -> Callable[[Server], Awaitable[Figures]]:
    """Return a scenario of streamed turns with this number of chunks. `pause` is the seconds between two chunks."""
    repeats = max(2, 2000 // chunks) if not pause else 1

    async def run(measured: Server) -> Figures:
        body = f"{chunks} {pause}"
        async with Connection(measured.port) as connection:
            before, received = measured.cpu, []
            for _ in range(repeats):
                received.append(await connection.stream(request(body, streaming=True, version=version)))
            cpu = measured.cpu - before
        updates = sum(each.updates for each in received)
        if updates < chunks * repeats:
            raise RuntimeError(f"{measured.name} streamed {updates} of {chunks * repeats} chunks.")
        return {
            "CPU µs a chunk": cpu / (chunks * repeats) * 1e6,
            "bytes a chunk": sum(each.size for each in received) / (chunks * repeats),
            "ms to the first chunk": statistics.median(each.first for each in received) * 1e3,
        }

    return run


async def sends(measured: Server) -> Figures:
    """Measure blocking SendMessage requests, one after another over one connection. Each answer has ten chunks."""
    async with Connection(measured.port) as connection:
        for _ in range(5):
            await connection.send(request("10 0", streaming=False))
        before, seconds = measured.cpu, []
        for _ in range(SENDS):
            began = time.perf_counter()
            await connection.send(request("10 0", streaming=False))
            seconds.append(time.perf_counter() - began)
        cpu = measured.cpu - before
    hundredths = statistics.quantiles(seconds, n=100)
    return {"CPU ms a send": cpu / SENDS * 1e3, "p50 ms": hundredths[49] * 1e3, "p99 ms": hundredths[98] * 1e3}


def at_once(connections: int, each: int) -> Callable[[Server], Awaitable[Figures]]:
    """Return a scenario of messages sent over many connections at once. An error response counts as a failed send."""

    async def run(measured: Server) -> Figures:
        async def answered() -> int:
            sent = 0
            async with Connection(measured.port) as connection:
                for _ in range(each):
                    with suppress(RuntimeError):
                        await connection.send(request("10 0", streaming=False))
                        sent += 1
            return sent

        began, before = time.perf_counter(), measured.cpu
        sends = sum(await asyncio.gather(*(answered() for _ in range(connections))))
        seconds, cpu = time.perf_counter() - began, measured.cpu - before
        return {
            "sends a second": sends / seconds,
            "CPU ms a send": cpu / sends * 1e3,
            "failed sends": connections * each - sends,
        }

    return run


async def long_context(measured: Server) -> Figures:
    """Run many turns in one context, and fit a line to their CPU times."""
    context, clock = str(uuid4()), []
    async with Connection(measured.port) as connection:
        await connection.send(request("10 0", streaming=False))
        clock.append(measured.cpu)
        for _ in range(TURNS):
            await connection.send(request("10 0", streaming=False, context=context))
            clock.append(measured.cpu)
    slope, start = statistics.linear_regression(range(TURNS), [end - begin for begin, end in pairwise(clock)])
    return {
        "CPU µs more in each turn": slope * 1e6,
        "CPU ms of turn 100": (start + 99 * slope) * 1e3,
    }


async def cold(measured: Server) -> Figures:
    """Measure the time from the start of the process to the first response, and the memory used by then."""
    await measured.ready()
    async with Connection(measured.port) as connection:
        await connection.send(request("10 0", streaming=False))
    return {
        "s to the first send": time.perf_counter() - measured.started,
        "CPU s to the first send": measured.cpu,
        "peak MiB": measured.peak_memory,
    }


SCENARIOS = (
    *(Scenario(f"stream of {chunks} chunks in one burst", streams(chunks)) for chunks in (100, 1000, 5000)),
    *(
        Scenario(f"stream of {chunks} chunks in one burst, v0.3", streams(chunks, version="0.3"), ("aion", "sdk"))
        for chunks in (1000, 5000)
    ),
    Scenario("stream of 100 chunks, one each 10 ms", streams(100, pause=0.01)),
    Scenario("blocking send of 10 chunks", sends),
    Scenario("16 sends at once", at_once(16, 12)),
    Scenario(f"{TURNS} turns of one context", long_context),
    Scenario("SQLite: stream of 100 chunks in one burst", streams(100), store="sqlite"),
    # The SDK's store writes the whole task at each chunk: a stream of 1,000 chunks takes it minutes.
    Scenario("SQLite: stream of 1000 chunks in one burst", streams(1000), ("aion", "floor"), store="sqlite"),
    Scenario("SQLite: blocking send of 10 chunks", sends, store="sqlite"),
    Scenario("SQLite: 16 sends at once", at_once(16, 12), store="sqlite"),
    Scenario(f"SQLite: {TURNS} turns of one context", long_context, store="sqlite"),
    Scenario("SQLite: 200 sends at once, `aion dev`", at_once(200, 1), store="dev"),
)
"""Scenarios on running servers. The scenario `cold` starts its own servers."""


async def measure_cold(name: str) -> Figures:
    """Start the server, and measure its cold start."""
    with server(name) as started:
        return await cold(started)
