"""Requests to the task store for notifications of v0.3, which contain the whole task."""

from collections.abc import AsyncGenerator

from aion_core.engine.agent import AgentMessage, Emission, Reply, TurnRequest
from tests.runtime.unit.push.pushing import Pushing, noted
from tests.support.agents.scripted import says
from tests.support.receiver import answers, receiving

MESSAGES = 20


class Talkative:
    """Agent that emits several messages in a turn."""

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        for number in range(MESSAGES):
            yield AgentMessage(says(f"{number}"))
        yield Reply(says("done"))


async def test_pending_v03_notifications_read_task_log_once() -> None:
    """Deliver the events of a turn after its receiver was down."""
    async with receiving(answers(500), answers(200)) as receiver:
        pushing = Pushing(agent=Talkative())
        message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
        settings = {"blocking": True, "pushNotificationConfig": {"id": "p", "url": receiver.url()}}
        task = await pushing.rpc("message/send", {"message": message, "configuration": settings})
        await pushing.rests(task, lambda delivery: delivery.tries == 1)
        reads = noted(pushing.parts.store, "log", lambda *_, **__: "log")
        noted(pushing.parts.store, "every_event", lambda *_, **__: "every_event", reads)
        await pushing.later(5, task)
        await pushing.rests(task, lambda delivery: delivery.cursor == MESSAGES + 3)
    assert len(receiver.posts) == MESSAGES + 3
    assert reads == ["every_event", "log"]
