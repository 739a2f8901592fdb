"""Server of an ASGI app on a real socket, in a thread of this process."""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp


@contextmanager
def listening(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serve the app until the block ends; yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=60)


def free_port() -> int:
    """Return an unused port below the ephemeral range, so that no connection takes it a moment later.

    Linux's range begins at 32768, and gVisor's at 16000.
    """
    for port in random.SystemRandom().sample(range(10_000, 16_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
