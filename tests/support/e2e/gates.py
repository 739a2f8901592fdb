"""Barriers between processes: code waits at a barrier until the test opens it. Tests need no sleep to order events."""

import asyncio
import os
from types import TracebackType
from typing import Self

TIMEOUT = 60.0


async def gate(name: str) -> None:
    """Tell the test that a barrier has been reached, and wait until the test opens it."""
    host, port = os.environ["TEST_GATES"].rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{name}\n".encode())
    await reader.readline()
    writer.close()


class Gates:
    """Barriers of a test. `journal` records when each barrier is reached and opened."""

    def __init__(self, journal: list[str] | None = None, *, host: str = "127.0.0.1") -> None:
        self.journal = journal if journal is not None else []
        self._host = host
        self._reached: dict[str, asyncio.Event] = {}
        self._opened: dict[str, asyncio.Event] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._arrive, self._host, 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in self._opened.values():
            opened.set()
        self._server.close()

    async def reached(self, name: str) -> None:
        """Wait until a process reaches the barrier."""
        async with asyncio.timeout(TIMEOUT):
            await self._reached.setdefault(name, asyncio.Event()).wait()

    def open(self, name: str) -> None:
        """Open the barrier for all processes, waiting and later ones."""
        self.journal.append(f"gate {name} opened")
        self._opened.setdefault(name, asyncio.Event()).set()

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        self.journal.append(f"gate {name} reached")
        self._reached.setdefault(name, asyncio.Event()).set()
        await self._opened.setdefault(name, asyncio.Event()).wait()
        writer.write(b"open\n")
        writer.close()
