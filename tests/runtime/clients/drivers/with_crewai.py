"""CrewAI: the result of a delegation, by polling (`send`) and by a stream."""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}

from crewai.a2a.updates import PollingConfig, StreamingConfig
from crewai.a2a.utils.delegation import aexecute_a2a_delegation
from play import play


class Conversation:
    def __init__(self, url: str) -> None:
        self._card = f"{url}/.well-known/agent-card.json"
        self._history = []

    async def send(self, text: str) -> str:
        return await self._delegate(text, PollingConfig(interval=0.2), self._asking)

    async def stream(self, text: str) -> str:
        return await self._delegate(text, StreamingConfig(), self._asking)

    async def send_to(self, task_id: str, text: str) -> str:
        return await self._delegate(text, PollingConfig(interval=0.2), task_id)

    async def stream_to(self, task_id: str, text: str) -> str:
        return await self._delegate(text, StreamingConfig(), task_id)

    async def _delegate(self, text: str, updates: PollingConfig | StreamingConfig, task_id: str | None) -> str:
        """Delegate as CrewAI's agents do (crewai/a2a/wrapper.py): the newest message names the context and the task."""
        last = self._history[-1] if self._history else None
        result = await aexecute_a2a_delegation(
            endpoint=self._card,
            auth=None,
            timeout=60,
            task_description=text,
            context_id=last and last.context_id,
            task_id=task_id,
            conversation_history=self._history,
            updates=updates,
        )
        self._history = result["history"]
        asking = result["status"] == "input-required" and self._history
        self._asking = self._history[-1].task_id if asking else None
        return result["result"] if "result" in result else result["error"]

    _asking: str | None = None


play(Conversation)
