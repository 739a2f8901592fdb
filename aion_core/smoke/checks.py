"""What an agent has to do for the official client: each check tells what it saw, or raises Failed or Skipped."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from a2a.types import CancelTaskRequest, StreamResponse, SubscribeToTaskRequest, TaskState, TaskStatus
from a2a.utils.errors import A2AError

from aion_core.smoke.agent import (
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
"""How often what a fast agent or a slow network may hide is looked for."""
TELLING, TELLING_OF_FEW = 1.0, 0.1
"""Seconds that a turn has to take, so that its stream tells whether it was held back; of few bytes it tells sooner, since
they would have come in one moment."""
FEW = 10_000
TOO_FAST = "the agent had answered before it could be {}; TEXT=… that it takes a few seconds over would tell"


async def card(agent: AgentUnderTest) -> str:
    """It leads where it was found."""
    interfaces = [i for i in agent.card.supported_interfaces if i.protocol_binding == BINDING]
    urls = [i.url for i in interfaces if i.protocol_version == VERSION]
    if not urls:
        raise CheckFailed(f"it offers no {BINDING} {VERSION}")
    # The deployment's agent at the root may name itself by its path.
    if not any(url == agent.url or url.startswith(f"{agent.url}/") for url in urls):
        raise CheckFailed(
            f"it leads to {urls[0]}, not to {agent.url}: deploy with BaseUrl={agent.deployment}, or check that URL instead. "
            f"What follows is asked of {agent.url}"
        )
    return f"{agent.card.name or 'an agent without a name'} {agent.card.version}, at {urls[0]}"


async def send(agent: AgentUnderTest) -> str:
    """A message is answered when the answer is there, and the task is there to be read."""
    answer = await agent.send(agent.request())
    if not answer.HasField("task"):
        return "answered with a message"
    task = answer.task
    raise_if_failed(task.status)
    read = await agent.task(task.id)
    if task.status.state in RUNNING:
        return "answered as it stands: the agent takes longer than a request waits"
    if read.status.state != task.status.state:
        raise CheckFailed(
            f"the task was answered as {name_of(task.status.state)}, and reads {name_of(read.status.state)}"
        )
    return f"the task is {name_of(task.status.state)}, and reads so"


async def stream(agent: AgentUnderTest) -> str:
    """An answer comes while it is made, not when it is done."""
    _must_stream(agent)
    for left in reversed(range(TRIES)):
        heard = await _received(agent.streaming.send_message(agent.request()))
        if heard.is_a_message:
            raise CheckSkipped("the agent answers with a message, which is not streamed")
        heard.must_be_whole()
        raise_if_failed(heard.statuses[-1].status)
        if heard.is_spread and heard.turn >= (TELLING_OF_FEW if heard.size < FEW else TELLING):
            return str(heard)
        if heard.turn < TELLING:
            raise CheckSkipped(
                f"{heard}: too fast to tell whether it was held back. TEXT=… that takes longer would tell"
            )
        if not left:
            raise CheckFailed(f"{heard}: something holds the stream back until it is over")
    raise AssertionError


async def cancel(agent: AgentUnderTest) -> str:
    """A task at work is canceled, and stays so."""
    for _ in range(TRIES):
        task = await agent.begin()
        if task.status.state not in RUNNING:
            continue
        try:
            answered = await agent.blocking.cancel_task(CancelTaskRequest(id=task.id))
        except A2AError as error:
            now = await agent.task(task.id)
            if now.status.state in RUNNING:
                raise CheckFailed(f"it was refused of a task that is {name_of(now.status.state)}: {error}") from error
            continue
        ended = await agent.wait_until_done(task.id)
        if ended.status.state != TaskState.TASK_STATE_CANCELED:
            raise CheckFailed(
                f"it was answered ({name_of(answered.status.state)}), and the task is {name_of(ended.status.state)}"
            )
        return "the task is canceled, and reads so"
    raise CheckSkipped(TOO_FAST.format("canceled"))


async def subscribe(agent: AgentUnderTest) -> str:
    """Who comes later to a task that nobody waits for hears the rest of it."""
    _must_stream(agent)
    for _ in range(TRIES):
        task = await agent.begin()
        try:
            heard = await _received(agent.streaming.subscribe(SubscribeToTaskRequest(id=task.id)))
        except A2AError:
            if (await agent.task(task.id)).status.state in RUNNING:
                raise
            continue
        heard.must_be_whole()
        ended = await agent.task(task.id)
        raise_if_failed(ended.status)
        if ended.status.state != (said := heard.statuses[-1].status.state):
            raise CheckFailed(f"the task was heard to be {name_of(said)}, and reads {name_of(ended.status.state)}")
        return f"{heard.events} events to the end; the task is {name_of(said)}"
    ended = await agent.wait_until_done(task.id)
    raise_if_failed(ended.status)
    raise CheckSkipped(TOO_FAST.format("subscribed to"))


@dataclass(frozen=True)
class ReceivedStatus:
    """A status, and when it was heard."""

    at: float
    status: TaskStatus

    @property
    def made_at(self) -> datetime:
        """When it became so, by the server's clock."""
        return self.status.timestamp.ToDatetime(UTC)


@dataclass
class ReceivedStream:
    """What came of a stream, and when."""

    statuses: list[ReceivedStatus] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)
    events: int = 0
    size: int = 0
    begins_with_task: bool = False
    is_a_message: bool = False

    def take(self, event: StreamResponse, at: float) -> None:
        """Note an event."""
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

    def must_be_whole(self) -> None:
        """Raise Failed unless it begins with the task and ends where the task is at rest."""
        if not self.begins_with_task:
            raise CheckFailed("the stream does not begin with the task")
        if (state := self.statuses[-1].status.state) in RUNNING:
            raise CheckFailed(f"the stream is over after {self.events} events, and the task is {name_of(state)}")

    @property
    def turn(self) -> float:
        """How many seconds lie between the first status and the last, by the server's clock."""
        return (self.statuses[-1].made_at - self.statuses[0].made_at).total_seconds()

    @property
    def spread(self) -> float:
        """How many seconds lay between them here; of a stream that is held back until its end, next to none."""
        return self.statuses[-1].at - self.statuses[0].at

    @property
    def is_spread(self) -> bool:
        """Whether it came as it was made. Differences are compared, so that neither clock has to be right."""
        return self.spread >= self.turn / 2

    def __str__(self) -> str:
        told = f"{self.events} events came over {self.spread:.1f} s of a turn of {self.turn:.1f} s"
        if not self.chunks:
            return told
        return f"{told}, {len(self.chunks)} pieces of the answer over {self.chunks[-1] - self.chunks[0]:.1f} s"


async def _received(events: AsyncIterator[StreamResponse]) -> ReceivedStream:
    heard = ReceivedStream()
    async for event in events:
        heard.take(event, time.monotonic())
    if not heard.events:
        raise CheckFailed("the stream is empty")
    return heard


def _must_stream(agent: AgentUnderTest) -> None:
    if not agent.card.capabilities.streaming:
        raise CheckSkipped("the card says that the agent does not stream")
