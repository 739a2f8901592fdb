"""An agent that is deployed anew in the middle of a turn: it goes on where all that was there is, and says so where not."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.tools import LongRunningFunctionTool

from aion_core.agents.adk.thread import REDEPLOYED
from aion_core.ports import Emission, TurnRequest
from tests.support.adk import DyingSessions, ask, call, history, said, saying, served
from tests.support.service import http, parts
from tests.unit.agents.adk.test_thread import TREES, after_all, outcome, paying, ran, simply, transferring


class Redeployed:
    """The first process has one agent, those after it another one."""

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


OTHERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "renamed": (TREES["in a sequence"], lambda: sequence(simply("one"), paying("two_b"), simply("three"))),
    "gone": (TREES["in a sequence"], lambda: sequence(simply("one"), simply("three"))),
    "another root": (TREES["in a sequence"], lambda: sequence(simply("one"), paying("two"), simply("three"), name="r")),
    "no sequence": (TREES["in a sequence"], paying),
    "transferred to": (lambda: transferring("one"), lambda: transferring("two")),
}


@pytest.mark.parametrize("place", [3, 6])
@pytest.mark.parametrize("change", OTHERS)
async def test_a_turn_whose_agents_are_gone_fails_and_says_so(change: str, place: int) -> None:
    """Fixed decision 7: nothing is run twice, or left out unheard."""
    ran.clear()
    first, then = OTHERS[change]
    sessions = DyingSessions(place)
    task = await after_all(Redeployed(served(first(), sessions), served(then(), sessions)))
    assert outcome(task)[:2] == ("FAILED", REDEPLOYED)
    assert ran["pay"] <= 1
    assert len(set(history(task))) == len(history(task))


@pytest.mark.parametrize("place", [3, 5, 6, 8])
async def test_a_turn_goes_on_where_agents_were_added(place: int) -> None:
    """As a graph does that has more nodes than it had."""
    ran.clear()
    sessions = DyingSessions(place)
    first = served(TREES["in a sequence"](), sessions)
    then = served(sequence(simply("one"), simply("fresh"), paying("two"), simply("three")), sessions)
    state, answer, before = outcome(await after_all(Redeployed(first, then)))
    assert (state, answer) == ("COMPLETED", "I am on it.")
    assert [line for line in before if line != "fresh said."] == [
        "hi",
        "one said.",
        "Let me pay.",
        "Paid. ",
        "All done.",
    ]
    assert ran == {"pay": 1, "tell": 1}


async def test_an_answer_to_an_agent_that_is_gone_fails_and_says_so() -> None:
    """Fixed decision 7: nobody else takes it; the next message is a turn of its own."""

    def approve() -> None:
        """Ask."""

    def asking(name: str) -> LlmAgent:
        model = saying([call("approve", "call-1")])
        return LlmAgent(name=name, model=model, tools=[LongRunningFunctionTool(func=approve)])

    following = LlmAgent(name="three", model=saying(["Not this."], ["Next."]))
    sessions = DyingSessions()
    then = served(sequence(following), sessions)
    async with http(parts(Redeployed(served(sequence(asking("two")), sessions), then)).app()) as client:
        task = await ask(client, "SendMessage")
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        task = await ask(client, "SendMessage", "yes", taskId=task["id"], message_id="m-2")
        assert (task["status"]["state"], said(task)) == ("TASK_STATE_FAILED", REDEPLOYED)
        following.model.scripts.pop(0)  # type: ignore[union-attr]
        task = await ask(client, "SendMessage", "and?", contextId=task["contextId"], message_id="m-3")
        assert said(task) == "Next."
