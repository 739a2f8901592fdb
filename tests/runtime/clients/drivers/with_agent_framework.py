"""Microsoft's Agent Framework: what `run` returns, and the updates of a stream.

Its agent is made from the agent's card, as in Microsoft's samples, or with the argument `url` from the URL alone.
"""

import sys

import httpx
from a2a.client import A2ACardResolver
from agent_framework_a2a import A2AAgent
from play import Screen, play


class Conversation:
    def __init__(self, url: str) -> None:
        self._url = url
        self._agent: A2AAgent | None = None

    async def send(self, text: str) -> str:
        agent = await self._made()
        return (await agent.run(text, session=self._session)).text

    async def stream(self, text: str) -> str:
        agent, screen = await self._made(), Screen()
        async for update in agent.run(text, stream=True, session=self._session):
            screen.add(update.message_id or "", update.text, append=update.merge_mode != "replace")
        return str(screen)

    async def get(self, task_id: str) -> str:
        agent = await self._made()
        return (await agent.poll_task({"task_id": task_id, "context_id": ""})).text

    async def _made(self) -> A2AAgent:
        if self._agent is None:
            card = None
            if sys.argv[1:] != ["url"]:
                async with httpx.AsyncClient() as http:
                    card = await A2ACardResolver(http, self._url).get_agent_card()
            self._agent = A2AAgent(name="remote", agent_card=card, url=self._url)
            self._session = self._agent.create_session()
        return self._agent


play(Conversation)
