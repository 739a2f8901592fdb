"""A program for an environment of its own that holds ministack: serves on a listening socket that it is given.

Run with the number of the socket's file descriptor; it ends when its standard input does, however its parent has ended.
See `tests/support/ministack.py`.
"""

import asyncio
import os
import sys
import threading

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app


def end_with_parent() -> None:
    """Read until nobody holds the other end any more."""
    sys.stdin.read()
    os._exit(0)


config = Config()
config.bind = [f"fd://{sys.argv[1]}"]
config.loglevel = "WARNING"
config.keep_alive_timeout = 600
threading.Thread(target=end_with_parent, daemon=True).start()
asyncio.run(serve(app, config))
