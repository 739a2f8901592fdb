"""HTTP entry point of the world: a request begins an invocation, and a Connection carries its response."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from aion_core.engine.call import CallContext
from aion_core.errors import AionError
from tests.simulation.connections import Broken, Connection
from tests.simulation.faults import Fault

if TYPE_CHECKING:
    from tests.simulation.processes import Process
    from tests.simulation.world import SimWorld


class Entrypoint:
    """HTTP entry point that passes each request to an execution environment of the API function."""

    def __init__(self, world: "SimWorld") -> None:
        self._world = world

    def ask(
        self, owner: str, operation: Callable[[Any, CallContext], Awaitable[Any]], *, of: str = "service"
    ) -> Connection:
        """Send a request to an environment of the API function; return the connection of its response."""
        process, connection = self._connect()
        self._world.begin(process, lambda call: self._answer(process, connection, operation, call, of), owner)
        return connection

    def listen(self, owner: str, operation: Callable[[Any, CallContext], Any], *, slow: float = 0.0) -> Connection:
        """Send a streaming request; return the connection that carries its stream."""
        process, connection = self._connect()
        connection.slow = slow
        self._world.begin(process, lambda call: self._stream(process, connection, operation, call), owner)
        return connection

    def _connect(self) -> tuple["Process", Connection]:
        process = self._world.process("api")
        connection = Connection(process.name)
        process.at_death(connection.breaks)
        return process, connection

    async def _answer(
        self,
        process: "Process",
        connection: Connection,
        operation: Callable[[Any, CallContext], Awaitable[Any]],
        call: CallContext,
        of: str,
    ) -> None:
        answer: Any
        try:
            answer = await operation(getattr(process.parts, of), call)
        except AionError as refused:
            answer = refused
        except asyncio.CancelledError:
            connection.breaks()
            raise
        except Exception as error:
            self._world.history.surprises.append(f"A request was answered by {error!r}")
            answer = Broken("internal error")
        if process.buffered:
            # Hand off running turns first: behind this entry point, the function responds only after it has returned.
            call.deadline.now.set()
            await call.background.wait()
        await process.effect("answer.write", lambda: self._writes(connection, answer))

    async def _stream(
        self,
        process: "Process",
        connection: Connection,
        operation: Callable[[Any, CallContext], Any],
        call: CallContext,
    ) -> None:
        try:
            async with aclosing(operation(process.parts.service, call)) as batches:
                async for batch in batches:
                    await process.effect("sse.write", partial(self._speaks, connection, batch))
                    await connection.room()
            connection.seconds_left = process.remaining()
            connection.ends()
        except AionError as refused:
            connection.ends(refused)
        except ConnectionError:
            pass  # the client has left: the work continues
        except asyncio.CancelledError:
            connection.breaks()
            raise
        except Exception as error:
            self._world.history.surprises.append(f"A stream ended by {error!r}")
            connection.ends(Broken("internal error"))

    def _writes(self, connection: Connection, answer: Any) -> None:
        if self._world.aim is not None and self._world.aim.fault is Fault.CLIENT_LEAVES:
            connection.breaks()
        else:
            connection.answers(answer)

    def _speaks(self, connection: Connection, batch: Any) -> None:
        if self._world.aim is not None and self._world.aim.fault is Fault.CLIENT_SLOW:
            connection.slow = self._world.aim.amount
        if self._world.aim is not None and self._world.aim.fault is Fault.CLIENT_LEAVES:
            connection.leave()
        connection.write(self._world.loop.now, batch)
