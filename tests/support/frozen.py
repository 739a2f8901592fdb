"""Heartbeat of a frozen worker."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def frozen(*args: Any, **options: Any) -> AsyncGenerator[asyncio.Future[None], None]:
    """Heartbeat of a frozen worker: it neither renews the lease nor reports that the lease is lost."""
    yield asyncio.get_running_loop().create_future()
