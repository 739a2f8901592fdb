"""Worker of the development server, with a real listener and a pipe to its supervisor."""

import asyncio
import multiprocessing
import socket
from typing import Any

from aion_core.dev.messages import Serving, Stop, Stopping
from aion_core.dev.worker import _Worker


async def app(scope: Any, receive: Any, send: Any) -> None:
    """ASGI app that only completes the lifespan protocol."""
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


async def received(connection: Any) -> Any:
    while not connection.poll():
        await asyncio.sleep(0)
    return connection.recv()


async def test_stopping_worker_closes_its_listener_immediately() -> None:
    """uvicorn alone closes its listener up to 0.1 s later; until then the old code would answer new requests."""
    ours, theirs = multiprocessing.Pipe()
    listener = socket.create_server(("127.0.0.1", 0))
    worker = _Worker(listener, theirs)
    serving = asyncio.create_task(worker._serve(app))
    assert await received(ours) == Serving()
    assert listener.fileno() != -1
    worker._commands.stop.set_result(Stop(has_successor=True))
    assert await received(ours) == Stopping()
    assert listener.fileno() == -1
    await serving
