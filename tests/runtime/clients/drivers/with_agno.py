"""Agno's A2AClient: the content of a result, and of a stream's events."""

from agno.client.a2a import A2AClient
from play import play


class Conversation:
    def __init__(self, url: str) -> None:
        # The other protocol, `rest`, posts a JSON-RPC request to /v1/message:send, which no server of A2A takes.
        self._client = A2AClient(url, protocol="json-rpc")
        self._context: str | None = None

    async def send(self, text: str) -> str:
        result = await self._client.send_message(message=text, context_id=self._context)
        self._context = result.context_id
        return result.content

    async def stream(self, text: str) -> str:
        """Show what the example of `A2AClient.stream_message` shows."""
        shown = ""
        async for event in self._client.stream_message(text, context_id=self._context):
            self._context = event.context_id
            if event.is_content and event.content:
                shown += event.content
        return shown


play(Conversation)
