"""Agent with a webhook on loopback, over the production delivery, client and SSRF checks."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import ASGIApp

from aion_core.engine.agent_options import PushEvents, ReplyAs
from aion_core.engine.delivery.records import Delivery, ExpiredPushTimer
from aion_core.engine.queues import PushWakeUp
from aion_core.engine.sweep import Sweep
from aion_core.push.pinned_client import PinnedWebhookClient
from aion_core.push.pinned_transport import Resolver, look_up
from aion_core.push.ssrf import WebhookPolicy
from aion_core.table.keys import TaskKey
from tests.support.agents.obedient import Obedient
from tests.support.asgi import post
from tests.support.clock import ManualClock
from tests.support.pushes import expired_of
from tests.support.service import ServiceParts, parts

LOOPBACK = WebhookPolicy.for_service("http://127.0.0.1:1", http=True, networks=["127.0.0.1/32"])
"""Policy that allows public addresses and 127.0.0.1."""


class Pushing:
    """Service with push delivery, and a JSON-RPC client."""

    def __init__(
        self,
        *,
        seconds: float = 60.0,
        allowed: WebhookPolicy = LOOPBACK,
        resolve: Resolver = look_up,
        events: PushEvents = PushEvents.STATUS,
        agent: Any = None,
        reply: ReplyAs = ReplyAs.TASK,
        redacts: bool = False,
    ) -> None:
        self.clock, self.agent = ManualClock(), agent or Obedient()
        webhooks = PinnedWebhookClient(allowed, self.clock, resolve=resolve, seconds=seconds, body_seconds=0.05)
        self.parts: ServiceParts = parts(
            self.agent,
            clock=self.clock,
            reply=reply,
            webhooks=webhooks,
            allowed=allowed,
            push_events=events,
            redacts=redacts,
        )
        self.app: ASGIApp = self.parts.app()

    async def rpc(self, method: str, params: dict[str, Any]) -> Any:
        """Return the result or error of a request."""
        answer = json.loads(await self.post(method, params))
        return answer["result"] if "result" in answer else answer["error"]

    async def post(self, method: str, params: dict[str, Any]) -> bytes:
        """Return the body of the response."""
        return (await post(self.app, {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))[1]

    async def send(
        self, config: dict[str, Any] | None = None, text: str = "hi", tenant: str = "", **more: Any
    ) -> dict[str, Any]:
        """Send a message with this webhook and return its task."""
        message = {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": [{"text": text}], **more}
        configuration = {"taskPushNotificationConfig": config} if config else {}
        params = {"message": message, "configuration": configuration, "tenant": tenant}
        task: dict[str, Any] = (await self.rpc("SendMessage", params))["task"]
        return task

    async def later(self, seconds: float, task: dict[str, Any]) -> None:
        """Move the clock by this number of seconds, and deliver the task's due notifications."""
        self.clock.move(seconds)
        await self.parts.push.delivery.deliver(PushWakeUp(TaskKey("anonymous", task["id"])))  # type: ignore[union-attr]

    async def expired_timers(self) -> Sequence[ExpiredPushTimer]:
        """Return the timers that expire within a day."""
        assert self.parts.push is not None
        self.clock.move(86_400)
        return await expired_of(self.parts.push.configs)

    async def sweep(self) -> None:
        """Run the sweep and wait for its deliveries."""
        push = self.parts.push
        assert push is not None
        self.clock.move(60)
        await Sweep(self.parts.store, self.parts.work_queue, push.configs, push.queue).once()
        await self.quiet()

    async def quiet(self) -> None:
        """Wait for the end of all deliveries."""
        assert self.parts.push is not None
        await asyncio.wait_for(self.parts.push.queue.quiet(), 60)

    def count_wake_ups(self) -> list[PushWakeUp]:
        """Return a list of the messages enqueued from now on; each new message is appended to it."""
        assert self.parts.push is not None
        return noted(self.parts.push.queue, "enqueue", lambda wake_up, **_: wake_up)

    def count_calls(self) -> list[str]:
        """Return a list of the task store's calls from now on, without those made by deliveries."""
        calls: list[str] = []
        for name in ("create", "begin", "append", "finish", "append_deltas", "log", "known"):
            noted(self.parts.store, name, lambda *_, name=name, **__: name, calls)
        return calls

    async def state(self, task: dict[str, Any]) -> Sequence[Delivery]:
        """Return the delivery state of each of the task's configs."""
        assert self.parts.push is not None
        return await self.parts.push.configs.deliveries(TaskKey("anonymous", task["id"]))

    async def rests(self, task: dict[str, Any], which: Callable[[Delivery], bool]) -> Delivery:
        """Wait until the delivery of the task's only config meets the condition and no worker posts it; return the delivery."""
        for _ in range(20_000):
            deliveries = await self.state(task)
            if deliveries and deliveries[0].claimed_until is None and which(deliveries[0]):
                return deliveries[0]
            await asyncio.sleep(0.005)
        raise AssertionError(deliveries)

    async def all_rest(self, task: dict[str, Any], cursor: int) -> None:
        """Wait until every config of the task has been notified up to this event."""
        for _ in range(20_000):
            if all(each.cursor == cursor and each.claimed_until is None for each in await self.state(task)):
                return
            await asyncio.sleep(0.005)
        raise AssertionError(await self.state(task))


def noted(of: Any, name: str, what: Callable[..., Any], notes: list[Any] | None = None) -> list[Any]:
    """Return a list to which each later call of the method is appended."""
    made, notes = getattr(of, name), notes if notes is not None else []

    async def call(*arguments: Any, **options: Any) -> Any:
        notes.append(what(*arguments, **options))
        return await made(*arguments, **options)

    setattr(of, name, call)
    return notes


def ids(task: dict[str, Any], *generations: int, config: str = "p") -> list[str]:
    """Return the ids that the notifications of these events have."""
    return [f"{task['id']}_{generation}_{config}" for generation in generations]
