"""First contact with a remote agent: its card, with the same patience as a call."""

import logging
from collections.abc import Awaitable, Callable, Iterator

import httpx
from a2a.client.client import Client
from a2a.client.errors import A2AClientTimeoutError

from aion_core.agent_client.bounded import UnusableAnswer, is_connection_error
from aion_core.agent_client.checked import CheckedClient
from aion_core.agent_client.documents import in_time
from aion_core.clock import SystemClock
from aion_core.delegation.durable_call import TRANSIENT, Patience
from aion_core.errors import RemoteAgentRefused, RemoteAgentUnreachable
from aion_core.table.times import milliseconds

logger = logging.getLogger(__name__)


async def contact(
    resolve: Callable[[], Awaitable[Client]], *, name: str, patience: Patience, seconds: float
) -> CheckedClient:
    """Return the client that `resolve` makes from the remote agent's card. Try again while the agent cannot be reached.

    Raises RemoteAgentRefused if the card is missing or invalid, and RemoteAgentUnreachable after this number of seconds.
    """
    clock = SystemClock()
    began, wait = milliseconds(clock.now()), 0.0
    while True:
        try:
            return CheckedClient(await in_time(resolve()))
        except Exception as error:  # ADK wraps whatever the author's HTTP client raises
            cause = list(_causes(error))[-1]
            if not any(map(_is_transient, _causes(error))):
                why = f"cannot be used. {cause}" if isinstance(cause, UnusableAnswer) else "is missing or invalid."
                text = f"The agent {name} cannot be called: its card {why}"
                raise RemoteAgentRefused(text, agent=name, reason=str(cause)) from error
            silent = (milliseconds(clock.now()) - began) / 1000
            if silent >= seconds:
                why = f" {cause}" if isinstance(cause, A2AClientTimeoutError) else ""
                text = f"The agent {name} could not be reached for {silent:.0f} s: its card cannot be read.{why}"
                raise RemoteAgentUnreachable(text, agent=name, reason=str(cause)) from error
            logger.info("The agent %s cannot be reached and is tried again: %s", name, cause)
        wait = min(max(wait * 2, patience.first_wait), patience.longest_wait)
        await clock.sleep(wait)


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def _is_transient(error: BaseException) -> bool:
    """Return True if the card may be read later: no connection, or an overloaded server."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in TRANSIENT
    return is_connection_error(error) or isinstance(error, A2AClientTimeoutError)
