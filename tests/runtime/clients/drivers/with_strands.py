"""Strands Agents: the result of `A2AAgent`, by a call and at the end of a stream."""

from play import play
from strands.agent.a2a_agent import A2AAgent


class Conversation:
    def __init__(self, url: str) -> None:
        self._agent = A2AAgent(endpoint=url)

    async def send(self, text: str) -> str:
        return str(await self._agent.invoke_async(text)).strip()

    async def stream(self, text: str) -> str:
        [result] = [event["result"] async for event in self._agent.stream_async(text) if "result" in event]
        return str(result).strip()


play(Conversation)
