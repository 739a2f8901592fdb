"""Gates: where code in another process waits until the test lets it go on. Order without sleeping."""

import asyncio
import os
from types import TracebackType
from typing import Self

PATIENCE = 60.0


async def gate(name: str) -> None:
    """Say that this place is reached, and wait until the test has opened it."""
    host, port = os.environ["TEST_GATES"].rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{name}\n".encode())
    await reader.readline()
    writer.close()


class Gates:
    """The test's side of the gates; each arrival and opening is written to `journal`, which others may share."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.journal = journal if journal is not None else []
        self._reached: dict[str, asyncio.Event] = {}
        self._opened: dict[str, asyncio.Event] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._arrive, "127.0.0.1", 0)
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
        """Wait until somebody stands at the gate."""
        async with asyncio.timeout(PATIENCE):
            await self._reached.setdefault(name, asyncio.Event()).wait()

    def open(self, name: str) -> None:
        """Let through whoever stands at the gate or comes to it."""
        self.journal.append(f"gate {name} opened")
        self._opened.setdefault(name, asyncio.Event()).set()

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        self.journal.append(f"gate {name} reached")
        self._reached.setdefault(name, asyncio.Event()).set()
        await self._opened.setdefault(name, asyncio.Event()).wait()
        writer.write(b"open\n")
        writer.close()
