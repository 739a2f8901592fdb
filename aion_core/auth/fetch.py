"""Reads a small JSON document of an issuer: from the URL that is configured, and from nowhere else."""

from typing import Any

import httpx

from aion_core.auth.jwks import Unreadable, parsed

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 512 * 1024


async def fetch(url: str) -> Any:
    """Return the document; raises Unreadable, also where the server sends to another place."""
    # A client each time: it is rare, and a client belongs to the event loop that has used it first.
    try:
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as answer,
        ):
            if answer.status_code != 200:
                raise Unreadable(f"the answer is {answer.status_code}")
            content = b""
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise Unreadable("the document is too large")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreadable(type(error).__name__) from error
    return parsed(content)
