"""Checks of an agent with the official A2A client. They return findings, or raise CheckFailed or CheckSkipped."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from a2a.types import CancelTaskRequest, StreamResponse, SubscribeToTaskRequest, TaskState, TaskStatus
from a2a.utils.errors import A2AError

from aion_tools.smoke.agent import (
    BINDING,
    RUNNING,
    VERSION,
    AgentUnderTest,
    CheckFailed,
    CheckSkipped,
    name_of,
    raise_if_failed,
)

TRIES = 3
"""Number of attempts of a check, because a fast agent or a slow network may hide the checked behaviour."""
CONCLUSIVE_SECONDS, CONCLUSIVE_SECONDS_OF_SMALL = 1.0, 0.1
"""Shortest turn, in seconds, with a stream long enough to show buffering by a proxy.

For small streams a shorter turn is enough, because a buffering proxy would deliver all their bytes at once.
"""
SMALL_BYTES = 10_000
TOO_FAST = "the agent had answered before its task could be {}; choose a message (--text) that takes it a few seconds"


async def card(agent: AgentUnderTest) -> str:
    """Check that the agent card names the agent's URL."""
    interfaces = [i for i in agent.card.supported_interfaces if i.protocol_binding == BINDING]
    urls = [i.url for i in interfaces if i.protocol_version == VERSION]
    if not urls:
        raise CheckFailed(f"the card offers no {BINDING} {VERSION} interface")
    # Accept both URLs of the default agent in a card: the deployment's root, and a path below the root.
    if not any(url.rstrip("/") in (agent.url, agent.deployment) or url.startswith(f"{agent.url}/") for url in urls):
        raise CheckFailed(
            f"the card names {urls[0]}, not {agent.url}: deploy with BaseUrl={agent.deployment}, or check that URL instead. "
            f"The next checks use {agent.url}"
        )
    return f"{agent.card.name or 'an agent without a name'} {agent.card.version}, at {urls[0]}"


async def send(agent: AgentUnderTest) -> str:
    """Check the reply to a message, and check that GetTask returns the same state of its task."""
    answer = await agent.send(agent.request())
    if not answer.HasField("task"):
        return "answered with a message"
    task = answer.task
    raise_if_failed(task.status)
    read = await agent.task(task.id)
    if task.status.state in RUNNING:
        return "the task is still running: the agent takes longer than a request waits"
    if read.status.state != task.status.state:
        raise CheckFailed(
            f"the reply says the task is {name_of(task.status.state)}, and GetTask says {name_of(read.status.state)}"
        )
    return f"the task is {name_of(task.status.state)}, also by GetTask"


async def stream(agent: AgentUnderTest) -> str:
    """Check that events arrive during the agent's turn, and that no proxy buffers them until its end."""
    _must_stream(agent)
    for left in reversed(range(TRIES)):
        received = await _received(agent.streaming.send_message(agent.request()))
        if received.is_a_message:
            raise CheckSkipped("the agent answers with a message instead of a task")
        received.must_be_complete()
        raise_if_failed(received.statuses[-1].status)
        if received.is_spread and received.turn >= (
            CONCLUSIVE_SECONDS_OF_SMALL if received.size < SMALL_BYTES else CONCLUSIVE_SECONDS
        ):
            return str(received)
        if received.turn < CONCLUSIVE_SECONDS:
            raise CheckSkipped(f"{received}: too fast to show buffering. Choose a message (--text) that takes longer")
        if not left:
            raise CheckFailed(f"{received}: a proxy buffers the stream until its end")
    raise AssertionError


async def cancel(agent: AgentUnderTest) -> str:
    """Check the cancellation of a running task, and the task's state afterwards."""
    for _ in range(TRIES):
        task = await agent.begin()
        if task.status.state not in RUNNING:
            continue
        try:
            answered = await agent.blocking.cancel_task(CancelTaskRequest(id=task.id))
        except A2AError as error:
            now = await agent.task(task.id)
            if now.status.state in RUNNING:
                raise CheckFailed(
                    f"the cancellation of a {name_of(now.status.state)} task was refused: {error}"
                ) from error
            continue
        ended = await agent.wait_until_done(task.id)
        if ended.status.state != TaskState.TASK_STATE_CANCELED:
            raise CheckFailed(
                f"the answer says {name_of(answered.status.state)}, and the task is {name_of(ended.status.state)}"
            )
        return "the task is canceled, also by GetTask"
    raise CheckSkipped(TOO_FAST.format("canceled"))


async def subscribe(agent: AgentUnderTest) -> str:
    """Check that a client receives the remaining events of a running task after subscribing to it."""
    _must_stream(agent)
    for _ in range(TRIES):
        task = await agent.begin()
        try:
            received = await _received(agent.streaming.subscribe(SubscribeToTaskRequest(id=task.id)))
        except A2AError:
            if (await agent.task(task.id)).status.state in RUNNING:
                raise
            continue
        received.must_be_complete()
        ended = await agent.task(task.id)
        raise_if_failed(ended.status)
        if ended.status.state != (last := received.statuses[-1].status.state):
            raise CheckFailed(f"the stream ends with {name_of(last)}, and GetTask says {name_of(ended.status.state)}")
        return f"{received.events} events to the end; the task is {name_of(last)}"
    ended = await agent.wait_until_done(task.id)
    raise_if_failed(ended.status)
    raise CheckSkipped(TOO_FAST.format("subscribed to"))


@dataclass(frozen=True)
class ReceivedStatus:
    """A status received in a stream, with the time of its arrival."""

    at: float
    status: TaskStatus

    @property
    def made_at(self) -> datetime:
        """Timestamp in the status, by the server's clock."""
        return self.status.timestamp.ToDatetime(UTC)


@dataclass
class ReceivedStream:
    """Events received from a stream, with their times of arrival."""

    statuses: list[ReceivedStatus] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)
    events: int = 0
    size: int = 0
    begins_with_task: bool = False
    is_a_message: bool = False

    def add(self, event: StreamResponse, at: float) -> None:
        """Record an event of the stream and the time of its arrival."""
        self.is_a_message = self.events == 0 and event.HasField("message")
        self.begins_with_task |= self.events == 0 and event.HasField("task")
        self.events += 1
        self.size += event.ByteSize()
        if event.HasField("task"):
            self.statuses.append(ReceivedStatus(at, event.task.status))
        elif event.HasField("status_update"):
            self.statuses.append(ReceivedStatus(at, event.status_update.status))
        elif event.HasField("artifact_update"):
            self.chunks.append(at)

    def must_be_complete(self) -> None:
        """Raise CheckFailed unless the stream begins with the task and ends in a terminal or interrupted state."""
        if not self.begins_with_task:
            raise CheckFailed("the stream does not begin with the task")
        if (state := self.statuses[-1].status.state) in RUNNING:
            raise CheckFailed(f"the stream ends after {self.events} events, and the task is still {name_of(state)}")

    @property
    def turn(self) -> float:
        """Seconds between the first status of the stream and the last, by the server's clock."""
        return (self.statuses[-1].made_at - self.statuses[0].made_at).total_seconds()

    @property
    def spread(self) -> float:
        """Seconds between the arrivals of the first status and the last. About zero for a buffered stream."""
        return self.statuses[-1].at - self.statuses[0].at

    @property
    def is_spread(self) -> bool:
        """True if the statuses arrived over at least half of the turn's time. Client and server clock may differ."""
        return self.spread >= self.turn / 2

    def __str__(self) -> str:
        text = f"{self.events} events in {self.spread:.1f} s of a {self.turn:.1f} s turn"
        if not self.chunks:
            return text
        return f"{text}, {len(self.chunks)} artifact chunks in {self.chunks[-1] - self.chunks[0]:.1f} s"


async def _received(events: AsyncIterator[StreamResponse]) -> ReceivedStream:
    received = ReceivedStream()
    async for event in events:
        received.add(event, time.monotonic())
    if not received.events:
        raise CheckFailed("the stream is empty")
    return received


def _must_stream(agent: AgentUnderTest) -> None:
    if not agent.card.capabilities.streaming:
        raise CheckSkipped("the card declares no streaming")
