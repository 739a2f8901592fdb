"""Redeployment of an ADK agent during a turn: the turn resumes if all its agents still exist, else it fails."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from aion_core.engine.agent import Emission, TurnRequest
from tests.runtime.unit.agents.adk.test_resumption import (
    TREES,
    answering,
    outcome,
    paying_agent,
    ran,
    run_to_end,
    transferring_agent,
)
from tests.support.adk import CrashingSessions, answer_text, ask, call, earlier, scripted_model, served
from tests.support.rows import each_row
from tests.support.service import http, parts


class RedeployedAgent:
    """Agent whose implementation changes between the first and the second try of its turn."""

    def __init__(self, first: Any, then: Any) -> None:
        self._first, self._then, self._tries = first, then, 0

    def load(self) -> None:
        pass

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self._tries += 1
        async with aclosing((self._first if self._tries == 1 else self._then).run(asked)) as emissions:
            async for emission in emissions:
                yield emission


def sequence(*agents: LlmAgent, name: str = "root") -> SequentialAgent:
    return SequentialAgent(name=name, sub_agents=list(agents))


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "renamed": (TREES["in a sequence"], lambda: sequence(answering("one"), paying_agent("two_b"), answering("three"))),
    "gone": (TREES["in a sequence"], lambda: sequence(answering("one"), answering("three"))),
    "another root": (
        TREES["in a sequence"],
        lambda: sequence(answering("one"), paying_agent("two"), answering("three"), name="r"),
    ),
    "no sequence": (TREES["in a sequence"], paying_agent),
    "transferred to": (lambda: transferring_agent("one"), lambda: transferring_agent("two")),
}


MISSING = {
    "renamed": " /root/two.",
    "gone": " /root/two.",
    "another root": " /root, /root/one",
    "no sequence": " /root/one, /root/three",
    "transferred to": "/one.",
}
"""Missing agents in the reason of the failure, by the change."""


@each_row("place", [3, 6])
@each_row("change", CHANGES)
async def test_resumed_turn_fails_if_its_adk_agent_was_removed(change: str, place: int) -> None:
    """Resume a turn without one of its agents: it fails instead of running a tool twice or skipping a step."""
    ran.clear()
    first, then = CHANGES[change]
    sessions = CrashingSessions(place)
    task = await run_to_end(RedeployedAgent(served(first(), sessions), served(then(), sessions)))
    state, reason = outcome(task)[:2]
    assert (state, reason[:38]) == ("FAILED", "The agent was deployed with other agen")
    assert MISSING[change] in reason
    assert ran["pay"] <= 1
    assert len(set(earlier(task))) == len(earlier(task))


@each_row("place", [3, 5, 6, 8])
async def test_added_agents_do_not_prevent_resume(place: int) -> None:
    """Resume a turn of a sequence that has one more agent since the crash: all its agents run."""
    ran.clear()
    sessions = CrashingSessions(place)
    first = served(TREES["in a sequence"](), sessions)
    then = served(sequence(answering("one"), answering("fresh"), paying_agent("two"), answering("three")), sessions)
    state, answer, before = outcome(await run_to_end(RedeployedAgent(first, then)))
    assert (state, answer) == ("COMPLETED", "I am on it.")
    assert [line for line in before if line != "fresh said."] == [
        "hi",
        "one said.",
        "Let me pay.",
        "Paid. ",
        "All done.",
        "three said.",
    ]
    assert ran == {"pay": 1, "notify": 1}


async def test_answer_fails_if_interrupted_adk_agent_was_removed(caplog: pytest.LogCaptureFixture) -> None:
    """Answer an agent that no longer exists: no other agent gets the answer, and the next message begins a new turn."""

    def approve() -> None:
        """Wait for an approval."""

    def asking_agent(name: str) -> LlmAgent:
        model = scripted_model([call("approve", "call-1")])
        return LlmAgent(name=name, model=model, tools=[LongRunningFunctionTool(func=approve)])

    following = LlmAgent(name="three", model=scripted_model(["Not this."], ["Next."]))
    sessions = CrashingSessions()
    then = served(sequence(following), sessions)
    async with http(parts(RedeployedAgent(served(sequence(asking_agent("two")), sessions), then)).app()) as client:
        task = await ask(client, "SendMessage")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        task = await ask(client, "SendMessage", "yes", taskId=task["id"], message_id="m-2")
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "no longer has /root/two." in str(answer_text(task))
        following.model.scripts.pop(0)  # type: ignore[union-attr]
        task = await ask(client, "SendMessage", "and?", contextId=task["contextId"], message_id="m-3")
        assert answer_text(task) == "Next."
