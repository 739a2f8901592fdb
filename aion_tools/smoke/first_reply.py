"""First streamed reply of a deployment, printed while it arrives."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx
from a2a.client.errors import A2AClientError
from a2a.types import Part, StreamResponse, TaskStatus
from a2a.utils.errors import A2AError

from aion_tools.smoke.agent import CheckFailed, agent_under_test, raise_if_failed, read_card
from aion_tools.smoke.credentials import NoCredentials, SmokeCredentials
from aion_tools.smoke.report import error_reason, missing_card_reason

TEXT = "Hello, who is there?"


@dataclass(frozen=True)
class FirstReply:
    """First reply of a deployed agent, with the time until its first words."""

    agent: str
    """Name of the agent on its card."""
    seconds: float
    """Seconds from the request to the first words of the reply."""
    is_streamed: bool


async def first_reply(
    url: str,
    credentials: SmokeCredentials,
    write: Callable[[str], None],
    *,
    text: str = TEXT,
    time_limit: float = 120.0,
) -> FirstReply:
    """Send a message to the agent at the URL, and pass each part of its reply to `write`. Raises CheckFailed.

    The first turn may include the cold start of two functions, so it may take longer than later turns.
    """
    try:
        async with httpx.AsyncClient(auth=credentials, timeout=time_limit) as http:
            card = await read_card(url, http, credentials)
            agent = agent_under_test(url, url, card, http, text=text, timeout=time_limit)
            streams = card.capabilities.streaming
            client = agent.streaming if streams else agent.blocking
            began, first, last = time.monotonic(), 0.0, None
            async for event in client.send_message(agent.request()):
                last = _status(event) or last
                if (words := _words(event, has_words=bool(first))) and not first:
                    first = time.monotonic() - began
                if words:
                    write(words)
            if last is not None:
                raise_if_failed(last)
            if not first:
                first = time.monotonic() - began
            return FirstReply(card.name, first, streams)
    except A2AClientError as error:
        raise CheckFailed(missing_card_reason(error, url)) from error
    except (A2AError, NoCredentials, httpx.HTTPError, ValueError) as error:
        raise CheckFailed(error_reason(error)) from error


def _words(event: StreamResponse, *, has_words: bool) -> str:
    """Return the text in an event of the stream.

    With `has_words`, the text of a status is left out, because it only repeats the text of artifacts.
    """
    if event.HasField("artifact_update"):
        return _text(event.artifact_update.artifact.parts)
    if event.HasField("message"):
        return _text(event.message.parts)
    status = _status(event)
    if has_words or status is None:
        return ""
    text = _text(status.message.parts)
    return text or (
        _text(part for each in event.task.artifacts for part in each.parts) if event.HasField("task") else ""
    )


def _status(event: StreamResponse) -> TaskStatus | None:
    if event.HasField("task"):
        return event.task.status
    return event.status_update.status if event.HasField("status_update") else None


def _text(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts)
