"""Programs for each code block of the ADK seed document: same imports, calls, signatures and results.

One block reads the agent's inbox, the other block fills its outbox. Each program is served over HTTP.
"""

from typing import Any

import pytest
from a2a.types import Message, Part, Role, Task
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions

from aion.shared.types import A2AInbox, A2AOutbox
from tests.support.adk import DIALECTS, answer_text, ask, ask_parts, earlier, served
from tests.support.service import http, parts

read: list[Any] = []


class Reader(BaseAgent):
    async def _run_async_impl(self, ctx):  # type: ignore[no-untyped-def]
        inbox = ctx.a2a_inbox
        read.append(inbox)
        task = inbox.task
        message = inbox.message
        metadata = inbox.metadata
        read.extend([task, message, metadata])
        return
        yield


class Announcer(BaseAgent):
    async def _run_async_impl(self, ctx):  # type: ignore[no-untyped-def]
        # first, an outbox with a message
        yield Event(
            author=self.name,
            actions=EventActions(
                state_delta={
                    "a2a_outbox": A2AOutbox(message=Message(role=Role.ROLE_AGENT, parts=[Part(text="It is done.")]))
                }
            ),
        )

        # then, an outbox with a task patch
        yield Event(
            author=self.name,
            actions=EventActions(
                state_delta={
                    "a2a_outbox": A2AOutbox(task=Task(history=[], artifacts=[], metadata={"progress": "all of it"}))
                }
            ),
        )


@pytest.fixture(params=DIALECTS, ids=["v1", "v0.3"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_agent_inbox_contains_task_and_all_message_parts(dialect: str) -> None:
    """The inbox has the task, the message with all its parts (not only text), and the request's metadata."""
    read.clear()
    async with http(parts(served(Reader(name="reader"))).app()) as client:
        file = {"url": "https://example.com/minutes.pdf", "mediaType": "application/pdf"}
        task = await ask_parts(client, dialect, {"text": "Read this."}, file)
    inbox, known, message, metadata = read
    assert isinstance(inbox, A2AInbox)
    assert isinstance(known, Task)
    assert (known.id, known.context_id) == (task["id"], task["contextId"])
    assert isinstance(message, Message)
    assert [part.WhichOneof("content") for part in message.parts] == ["text", "url"]
    assert (message.role, message.parts[0].text) == (Role.ROLE_USER, "Read this.")
    assert metadata == {}
    assert (task["status"]["state"], answer_text(task)) == ("TASK_STATE_COMPLETED", None)


async def test_agent_inbox_contains_metadata_of_request() -> None:
    """Send a request with metadata: the agent reads the same values in its inbox."""
    read.clear()
    async with http(parts(served(Reader(name="reader"))).app()) as client:
        request = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {
                "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]},
                "metadata": {"traceId": "t-1", "hops": 2},
            },
        }
        assert "result" in (await client.post("/", json=request)).json()
    assert read[-1] == {"traceId": "t-1", "hops": 2}


async def test_message_and_task_changes_in_outbox_reach_client(dialect: str) -> None:
    """The client receives the message, with an id from the server, and its task changed by the task patch."""
    async with http(parts(served(Announcer(name="announcer"))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], answer_text(task), earlier(task)) == (
        "TASK_STATE_COMPLETED",
        "It is done.",
        ["hi"],
    )
    assert task["metadata"] == {"progress": "all of it"}
    answer = task["status"]["message"]
    assert answer["messageId"]
    assert (answer["taskId"], answer["contextId"], answer["role"]) == (task["id"], task["contextId"], "ROLE_AGENT")
