"""What one would build without aion-lambda to keep conversations: the compared servers on SQLite files.

`floor` is the bare Starlette app on LangGraph's AsyncSqliteSaver. `sdk` is the A2A SDK's server on this saver and the
SDK's own DatabaseTaskStore. The files have the settings of `aion dev`; the defaults would measure the disk.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from a2a.server.tasks import DatabaseTaskStore
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette

from bench import floor as bare
from bench import official
from bench.chat import Chat

FOLDER = "BENCH_FOLDER"
"""Environment variable with the folder of the SQLite files."""

SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL")


@asynccontextmanager
async def chat() -> AsyncIterator[Chat]:
    """Yield the graph with LangGraph's saver in a SQLite file. It stores a step before the next one, as `aion` does."""
    async with AsyncSqliteSaver.from_conn_string(str(_file("checkpoints.db"))) as saver:
        for setting in SETTINGS:
            await saver.conn.execute(setting)
        yield Chat(saver, "sync")


@asynccontextmanager
async def engine() -> AsyncIterator[AsyncEngine]:
    """Yield the engine of the SDK's task store."""
    opened = create_async_engine(f"sqlite+aiosqlite:///{_file('tasks.db')}")

    @event.listens_for(opened.sync_engine, "connect")
    def configure(connection: DBAPIConnection, _: object) -> None:
        for setting in SETTINGS:
            connection.cursor().execute(setting)

    yield opened
    await opened.dispose()


@asynccontextmanager
async def open_floor(app: Starlette) -> AsyncIterator[None]:
    """Add the routes of the bare app while the server runs."""
    async with chat() as stored:
        app.router.routes.extend(bare.routes(stored))
        yield


@asynccontextmanager
async def open_sdk(app: Starlette) -> AsyncIterator[None]:
    """Add the routes of the SDK's server while the server runs."""
    async with chat() as stored, engine() as opened:
        app.router.routes.extend(official.routes(stored, DatabaseTaskStore(opened)))
        yield


def _file(name: str) -> Path:
    return Path(os.environ[FOLDER]) / name


floor = Starlette(lifespan=open_floor)
sdk = Starlette(lifespan=open_sdk)
