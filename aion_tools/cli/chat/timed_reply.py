"""One message to an agent, by the official A2A client, and the times of its reply. A lost stream is not resumed."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from aion_tools.cli.chat.content import Answer
from aion_tools.cli.chat.endpoint import Endpoint
from aion_tools.cli.chat.session import chat_session, refusal_text

if TYPE_CHECKING:
    from a2a.types import StreamResponse

TEXT = "Hello, who is there?"
TIME_LIMIT = 300.0
"""Time limit of a reply, in seconds. The first turn may include the cold start of two functions."""
CONCLUSIVE_SECONDS = 1.0
"""Shortest turn, in seconds, that shows whether its stream is buffered."""
UNBUFFER = (
    "A proxy holds the stream back (turn its buffering off, or call the API's own URL), or AWS does: in a Region without "
    "response streaming, or at a Function URL of functions in a VPC (docs/deploy.md#streaming)."
)
"""Reasons of a buffered stream, and what to do."""


@dataclass
class TimedReply:
    """Reply of an agent, with the times of its arrival in seconds since the request."""

    agent: str
    """Name of the agent on its card."""
    is_streamed: bool
    """False if the client asked for a blocking reply, or the card declares no streaming."""
    answer: Answer = field(default_factory=Answer)
    events: int = 0
    first: float = 0.0
    """Time of the first words."""
    end: float = 0.0
    _statuses: list[tuple[float, float]] = field(default_factory=list)
    """Time of arrival of each status, and its timestamp by the server's clock."""

    def add(self, event: "StreamResponse", at: float) -> None:
        """Add an event of the reply and the time of its arrival."""
        self.answer.add(event)
        self.events, self.end = self.events + 1, at
        if self.answer.shown and not self.first:
            self.first = at
        update = event.task if event.HasField("task") else event.status_update
        if update.status.HasField("timestamp"):
            self._statuses.append((at, update.status.timestamp.ToDatetime(UTC).timestamp()))

    @property
    def is_buffered(self) -> bool:
        """True if the statuses of a turn of a second or more arrived in less than half of the turn's time.

        Time spans are compared, so neither clock has to be right.
        """
        if not self._statuses:
            return False
        (first, begun), (last, ended) = self._statuses[0], self._statuses[-1]
        return ended - begun >= CONCLUSIVE_SECONDS and last - first < (ended - begun) / 2

    @property
    def arrival(self) -> str:
        """How the reply has arrived, for people."""
        if not self.is_streamed:
            return "not streamed, by its card"
        return "whole at its end instead of streamed" if self.is_buffered else "streamed"


async def timed_reply(
    endpoint: Endpoint,
    text: str = TEXT,
    *,
    streams: bool = True,
    show: Callable[[Answer], None] = lambda _: None,
    time_limit: float = TIME_LIMIT,
) -> TimedReply:
    """Send the text to the agent, and pass its answer so far to `show` after each event.

    Raises click.ClickException, with the next step, if there is no complete answer: an unreachable agent, a refused
    message, a failed task, a broken stream, or no answer within the time limit.
    """
    from a2a.types import Message, Part, Role, SendMessageRequest
    from a2a.utils.errors import A2AError

    message = Message(message_id=str(uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
    try:
        async with asyncio.timeout(time_limit), chat_session(endpoint, "", streams=streams) as opened:
            reply = TimedReply(opened.card.name, streams and opened.card.capabilities.streaming)
            began = time.monotonic()
            try:
                async for event in opened.client.send_message(SendMessageRequest(message=message)):
                    reply.add(event, time.monotonic() - began)
                    show(reply.answer)
            except A2AError as error:
                raise click.ClickException(refusal_text(error)) from error
    except TimeoutError as error:
        raise click.ClickException(f"The agent has not answered within {time_limit:g} s.") from error
    answer = reply.answer
    if answer.state in ("failed", "rejected"):
        reason = answer.shown or "the agent gave no reason"
        raise click.ClickException(f"The task {answer.task_id} is {answer.state}: {reason}")
    if not answer.state or (reply.is_streamed and not answer.is_over):
        state = f"task is {answer.state}" if answer.state else "agent has sent no task and no message"
        raise click.ClickException(f"The reply ended after {reply.events} events, and the {state}.")
    return reply
