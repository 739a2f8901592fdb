"""Agent in this process, with a task in each state."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aion_core.clock import SystemClock
from aion_core.push.pinned_client import PinnedWebhookClient
from aion_core.push.ssrf import WebhookPolicy
from tests.runtime.protocol.dialects import Dialect, RpcDialect, Sent
from tests.support.agents.obedient import Obedient
from tests.support.asgi import AsgiAnswer, call
from tests.support.service import parts

ALLOWED = WebhookPolicy.for_service("https://agents.example.com")


async def _nobody(host: str, port: int) -> Sequence[str]:
    raise OSError("There is no network here.")


def _telling(app: ASGIApp, begun: asyncio.Event) -> ASGIApp:
    """Return the app. It sets the event when it has sent the first piece of a successful response."""

    async def telling(scope: Scope, receive: Receive, send: Send) -> None:
        statuses: list[int] = []

        async def send_and_tell(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            elif statuses == [200]:
                begun.set()

        await app(scope, receive, send_and_tell)

    return telling


class ServedTasks:
    """App and its tasks by state: `done`, `working`, `asking`, `canceled`."""

    def __init__(
        self,
        declared: str = "",
        *,
        push: bool = True,
        behind: Callable[[ASGIApp], ASGIApp] | None = None,
        **options: Any,
    ) -> None:
        """Declare the extensions `declared` in the requests that prepare tasks; `push` enables push notifications.

        `behind` returns the app behind an HTTP entry point.
        """
        self.agent = Obedient()
        self._behind = behind or (lambda app: app)
        self._declared = {"a2a-extensions": declared} if declared else {}
        told: dict[str, Any] = {
            "webhooks": PinnedWebhookClient(ALLOWED, SystemClock(), resolve=_nobody),
            "allowed": ALLOWED,
        }
        self._parts = parts(self.agent, **(told if push else {}))
        for name, value in options.items():
            setattr(self._parts, name, value)
        self.app = self._parts.app()
        self.tasks: dict[str, dict[str, Any]] = {}

    async def ask(self, dialect: Dialect, sent: Sent, **headers: str) -> AsgiAnswer:
        """Send the request. After the start of a subscription, a working agent finishes, and an asking task is canceled."""
        ends = asyncio.Event()
        subscribes = "ubscribe" in sent.target or b"ubscribe" in sent.body
        canceling = asyncio.create_task(self._cancel_asking(ends)) if subscribes else None
        try:
            app = self._behind(_telling(self.app, ends) if subscribes else self.app)
            return await call(app, sent.method, sent.target, sent.body, {**sent.headers, **headers})
        finally:
            if canceling is not None:
                canceling.cancel()

    async def _cancel_asking(self, begun: asyncio.Event) -> None:
        await begun.wait()
        self.agent.go.set()
        if "asking" in self.tasks:
            await self._rpc("CancelTask", {"id": self.tasks["asking"]["id"]})

    async def prepare(self, state: str) -> dict[str, Any]:
        """Return a task in this state; each task has a context of its own."""
        if state not in self.tasks:
            words = {"done": "hello", "told": "hello", "asking": "ask", "working": "work", "canceled": "work"}
            task = await self._send(words[state], state, at_once=words[state] == "work")
            if words[state] == "work":
                await self.agent.works.wait()
            if state == "canceled":
                await self._rpc("CancelTask", {"id": task["id"]})
            if state == "told":
                for name in ("p", "q"):
                    config = {"taskId": task["id"], "id": name, "url": "https://hooks.example.org/a"}
                    await self._rpc("CreateTaskPushNotificationConfig", config)
            self.tasks[state] = task
        return self.tasks[state]

    async def filled(self, params: Any) -> Any:
        """Return the params with ids in place of the placeholders; start the tasks in the named states."""
        match params:
            case dict():
                return {name: await self.filled(value) for name, value in params.items()}
            case list():
                return [await self.filled(value) for value in params]
            case str() if found := re.fullmatch(r"<(c-)?(\w+)>", params):
                task = await self.prepare(found[2])
                return task["contextId" if found[1] else "id"]
        return params

    async def rest(self) -> None:
        """Let the agent finish its work."""
        self.agent.go.set()
        for _ in range(20):
            await asyncio.sleep(0)

    async def _send(self, text: str, name: str, *, at_once: bool) -> dict[str, Any]:
        message = {
            "messageId": f"m-{name}",
            "contextId": f"c-{name}",
            "role": "ROLE_USER",
            "parts": [{"text": text}],
        }
        task: dict[str, Any] = (
            await self._rpc("SendMessage", {"message": message, "configuration": {"returnImmediately": at_once}})
        )["task"]
        return task

    async def _rpc(self, method: str, params: dict[str, Any]) -> Any:
        sent = RpcDialect().request(method, params)
        assert sent is not None
        answer = await self.ask(RpcDialect(), sent, **self._declared)
        body = json.loads(answer.body)
        assert "result" in body, body
        return body["result"]
