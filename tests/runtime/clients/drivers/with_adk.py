"""ADK's RemoteA2aAgent: the text of its events, in which a whole event replaces the partial ones before it."""

import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from play import play


class Conversation:
    def __init__(self, url: str) -> None:
        self._card = f"{url}/.well-known/agent-card.json"
        self._sessions = InMemorySessionService()
        self._session = str(uuid.uuid4())
        self._asked: types.FunctionCall | None = None

    async def send(self, text: str) -> str:
        return await self._run(text, streaming=False)

    async def stream(self, text: str) -> str:
        return await self._run(text, streaming=True)

    async def _run(self, text: str, *, streaming: bool) -> str:
        part = types.Part(text=text)
        if asked := self._asked:
            response = types.FunctionResponse(id=asked.id, name=asked.name, response={"result": text})
            part = types.Part(function_response=response)
        self._asked = None
        shown: dict[str, str] = {}
        async with httpx.AsyncClient(timeout=90) as http:
            factory = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming))
            agent = RemoteA2aAgent(name="remote", agent_card=self._card, a2a_client_factory=factory)
            runner = Runner(app_name="test", agent=agent, session_service=self._sessions, auto_create_session=True)
            message = types.Content(role="user", parts=[part])
            async for event in runner.run_async(user_id="me", session_id=self._session, new_message=message):
                text = self._text(event.content) + (event.error_message or "")
                # A whole event replaces the partial ones with its id.
                shown[event.id] = shown.get(event.id, "") + text if event.partial else text
        return " | ".join(filter(None, shown.values()))

    def _text(self, content: types.Content | None) -> str:
        """Return the text without thoughts, or the question as which ADK represents a call of its own."""
        texts = []
        for part in (content.parts if content else None) or ():
            if call := part.function_call:
                self._asked = call
                texts += map(str, (call.args or {}).values())
            elif part.text and not part.thought:
                texts.append(part.text)
        return "".join(texts)


play(Conversation)
