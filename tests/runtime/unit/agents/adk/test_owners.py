"""Two authenticated owners of one ADK agent: sessions, artifacts, state and memories are separate."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.support.adk import answer_text, task_of
from tests.support.issuer import Issuer, issuing
from tests.support.service import http, send

AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions
from google.adk.memory import InMemoryMemoryService
from google.genai import types

memory_service = InMemoryMemoryService()


class Notes(BaseAgent):
    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text
        place = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id, "filename": "note.txt"}
        if text.startswith("note "):
            await ctx.artifact_service.save_artifact(artifact=types.Part(text=text), **place)
            yield Event(
                author=self.name,
                content=types.ModelContent("noted"),
                actions=EventActions(state_delta={"note": text, "user:note": text, "app:note": "shared"}),
            )
            await ctx.memory_service.add_session_to_memory(ctx.session)
            return
        file = await ctx.artifact_service.load_artifact(**place)
        found = await ctx.memory_service.search_memory(app_name=ctx.app_name, user_id=ctx.user_id, query="note")
        state = ctx.session.state
        known = [state.get("note"), state.get("user:note"), file and file.text, len(found.memories) > 0]
        earlier = sum(event.author == "user" for event in ctx.session.events) - 1
        yield Event(author=self.name, content=types.ModelContent(f"{known} {earlier} {state.get('app:note')}"))


root_agent = Notes(name="notes")
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


async def answer(client: httpx.AsyncClient, token: str, text: str, number: int, dialect: str) -> str:
    """Return the answer for an owner in the context `c-1`, which both owners use."""
    request = send(text, method=dialect, message_id=f"m-{number}", contextId="c-1")
    headers = {"Authorization": f"Bearer {token}"}
    result: Any = (await client.post("/", json=request, headers=headers)).json()
    return str(answer_text(task_of(result)))


async def test_two_owners_with_equal_context_id_share_only_app_state(
    issuer: Issuer, dialect: str, tmp_path: Path
) -> None:
    """Two owners use one context id: they share only the state with the prefix `app:`, which belongs to the agent."""
    (tmp_path / "agent.py").write_text(AGENT)
    config = tmp_path / "aion.yaml"
    schemes = jwt_scheme(issuer)
    config.write_text(f"aion:\n  security:\n    schemes:\n{schemes}  agents:\n    notes: {{path: agent.py}}\n")
    environment = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test"}
    async with http(build_app(Settings.from_environ(environment))) as client:
        first, second = issuer.token(sub="first"), issuer.token(sub="second")
        assert await answer(client, first, "note of the first", 1, dialect) == "noted"
        assert await answer(client, second, "tell", 1, dialect) == "[None, None, None, False] 0 shared"
        assert await answer(client, second, "note of the second", 2, dialect) == "noted"
        for token, name in ((first, "first"), (second, "second")):
            note = f"'note of the {name}'"
            known = await answer(client, token, "tell", 3, dialect)
            assert known.startswith(f"[{note}, {note}, {note}, True]")
