"""Source files on the path of one streamed message, in order of their first call.

`python -m tests.repository.bench.message_path` sends "Hello there" to the echo agent in this process (v1, JSON-RPC,
SendStreamingMessage, no authentication, limits or webhook) on the memory store, and prints the list. A file counts if one of
its functions is called; imports and once-per-process work do not count.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from aion_tools.testing import ENVIRONMENT

ROOT = Path(__file__).parents[3]
PRODUCT = tuple(f"{ROOT / folder}{os.sep}" for folder in ("aion_core", "handlers"))
EMULATOR = f"{ROOT / 'aion_core' / 'local'}{os.sep}"

QUIET = {**ENVIRONMENT, "AION_CONFIG": str(ROOT / "examples" / "echo" / "aion.yaml"), "AION_LEASE_SECONDS": "600"}
"""Settings. The long lease is never renewed: a renewal would add two files to the path."""

WRITES = {"MemoryTable.write", "MemoryTable.transact", "MemoryTable.write_blocking"}
"""Write functions of the memory store."""


@dataclass
class MessagePath:
    """Distinct files on a message's path, in order of their first call."""

    files: list[str] = field(default_factory=list)
    before_write: int | None = None
    """Number of files before the first write; None without a write."""

    def enter(self, frame: FrameType) -> None:
        """Record the file of a called function."""
        code = frame.f_code
        name = code.co_filename
        if self.before_write is None and _writes(frame):
            self.before_write = len(self.files) + name.startswith(PRODUCT)
        if name.startswith(PRODUCT) and not name.startswith(EMULATOR) and code.co_name != "<module>":
            entered = str(Path(name).relative_to(ROOT))
            if entered not in self.files:
                self.files.append(entered)


def _writes(frame: FrameType) -> bool:
    name = frame.f_code.co_qualname
    return name in WRITES


_is_message: ContextVar[bool] = ContextVar("is_message", default=False)


async def message_path(environ: Mapping[str, str]) -> MessagePath:
    """Send two messages to an app with these settings; return the path of the second."""
    path, is_traced = MessagePath(), False

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        # Trace only the message's own asyncio tasks, which inherit the variable _is_message, and its threads. Ignore
        # the threads named lease-…, because they check a lease only if a turn is slow, as on a machine under load.
        thread = threading.current_thread()
        is_of_message = thread is not main_thread or _is_message.get()
        if is_traced and event == "call" and is_of_message and not thread.name.startswith("lease-"):
            path.enter(frame)

    main_thread = threading.current_thread()
    # Call setprofile before the app is built, because it traces only threads that start later.
    threading.setprofile(profile)
    try:
        app = build_app(Settings.from_environ(environ))
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000", timeout=None) as client,  # noqa: S113
        ):
            await _send(client, "m-1")
            _is_message.set(True)
            is_traced = True
            sys.setprofile(profile)
            await _send(client, "m-2")
            is_traced = False
    finally:
        _is_message.set(False)
        sys.setprofile(None)
        threading.setprofile(None)
    return path


async def _send(client: httpx.AsyncClient, message_id: str) -> None:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    answer = await client.post("/", json=request)
    if "TASK_STATE_COMPLETED" not in answer.text:
        raise SystemExit(f"The turn did not complete: {answer.text}")


def main() -> None:
    """Print the path of a message."""
    path = asyncio.run(message_path(QUIET))
    for number, name in enumerate(path.files, start=1):
        print(f"{number:3} {name}")
        if number == path.before_write:
            print("    ── first write of the table")
    print(f"{path.before_write} files until the first write")
    print(f"{len(path.files)} files in the streamed turn")


if __name__ == "__main__":
    main()
