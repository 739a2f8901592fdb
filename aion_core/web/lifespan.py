"""Start and shutdown of the app: loading the agents, and the background task.

The ASGI server calls the lifespan function; Lambda's runtime loop does so in its init phase.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI
from msgspec import Struct

from aion_core.engine.agent import Agent
from aion_core.errors import ConfigurationError

logger = logging.getLogger(__name__)

BackgroundTask = Callable[[], Coroutine[Any, Any, None]]
"""Coroutine function. The app runs it in the background from its start to its shutdown."""

Startup = Callable[[], Mapping[str, Any] | None]
"""Function that loads the agents before the first request. It returns the server's lifespan state (ASGI lifespan)."""


class Lifecycle(Struct, frozen=True):
    """Functions that the app calls beside its requests. Without `startup` the agents load in the background."""

    background_task: BackgroundTask | None = None
    startup: Startup | None = None
    leftover: Callable[[], Awaitable[None]] | None = None
    """Function that waits for the turns left by earlier requests, if nothing runs between the requests."""


def lifespan_of(lifecycle: Lifecycle) -> Callable[[FastAPI], AbstractAsyncContextManager[Any]]:
    """Return the app's lifespan function. It loads the agents and runs the background task."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Mapping[str, Any] | None]:
        running, state = [], None
        if lifecycle.startup is not None:
            state = await asyncio.to_thread(lifecycle.startup)
        else:
            # Load the agents in the background, so that the first message need not wait for their imports.
            running.append(asyncio.create_task(_load(list(app.state.agents.values()))))
        if lifecycle.background_task is not None:
            running.append(asyncio.create_task(lifecycle.background_task()))
        yield state
        for task in running:
            task.cancel()

    return lifespan


async def _load(agents: list[Agent]) -> None:
    """Load the agents' code in the background, so that the first message need not wait for it."""
    for agent in agents:
        try:
            await asyncio.to_thread(agent.load)
        except ConfigurationError as error:
            logger.error("%s Its turns will fail until this is fixed.", error)
        except Exception:
            logger.exception("An agent cannot be loaded; its turns will fail until its code is fixed.")
