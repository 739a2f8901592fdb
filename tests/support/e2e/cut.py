"""TCP proxy whose connections a test cuts."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Cut:
    """Proxy from one port to another."""

    def __init__(self, listener: socket.socket, port: int) -> None:
        self._listener, self._port = listener, port
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._refuses = False

    def cut(self) -> None:
        """Abort all connections, and refuse new ones until `mend`."""
        self._refuses = True
        self._loop.call_soon_threadsafe(self._abort)

    def mend(self) -> None:
        """Accept connections again."""
        self._refuses = False

    def run(self) -> None:
        """Forward connections until `stop`."""
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._listener))
        self._loop.run_forever()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _abort(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._open |= {writer, far_writer}
            here = str(self._listener.getsockname()[1]).encode()
            await asyncio.gather(
                self._copy(reader, far_writer), self._copy(far_reader, writer, (str(self._port).encode(), here))
            )
            self._open -= {writer, far_writer}
        writer.close()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ports: tuple[bytes, bytes] | None = None
    ) -> None:
        """Forward the bytes. With `ports`, replace the first in URLs by the second, so that a card names the proxy."""
        with suppress(OSError):
            while chunk := await reader.read(65_536):
                if ports is not None:
                    chunk = chunk.replace(b"127.0.0.1:" + ports[0], b"127.0.0.1:" + ports[1])
                writer.write(chunk)
                await writer.drain()
        writer.close()


@contextmanager
def cuttable(port: int) -> Iterator[tuple[int, Cut]]:
    """Run a proxy to the port in a thread; yield the proxy's own port and the proxy."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Cut(listener, port)
        thread = threading.Thread(target=proxy.run, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], proxy
        finally:
            proxy.stop()
            thread.join()
