"""Programs for each code block of the ADK seed document: same imports, calls, signatures and results.

One block reads the agent's inbox, the other block fills its outbox. Each program is served over HTTP.
"""

import pytest
from a2a.types import Message, Part, Role, Task
from google.adk.agents import BaseAgent
from google.adk.events import Event, EventActions

from aion.shared.types import A2AOutbox
from tests.support.adk import DIALECTS, answer_text, ask, earlier, served
from tests.support.service import http, parts


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
