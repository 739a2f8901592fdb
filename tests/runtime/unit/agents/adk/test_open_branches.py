"""Questions of parallel agents that the client answers one after another: nothing goes on past an open question."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool

from tests.runtime.unit.agents.adk.test_resumption import outcome, patient, repeating
from tests.support.adk import CrashingSessions, DecidingLlm, call, served, task_of
from tests.support.clock import ManualClock
from tests.support.rows import places, taking_turns
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

ran: Counter[str] = Counter()


def confirmed(name: str) -> LlmAgent:
    def pay() -> str:
        """Pay."""
        ran[name] += 1
        return "paid"

    def decide(seen: list[str]) -> list[Any]:
        return [f"{name} is done."] if any("pay -> {'result'" in line for line in seen) else [call("pay")]

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=[FunctionTool(pay, require_confirmation=True)])


def long_running(name: str) -> LlmAgent:
    def approve() -> dict[str, str]:
        """Wait for an approval."""
        return {"status": "pending"}

    def decide(seen: list[str]) -> list[Any]:
        if any("approve -> {'result': 'yes'}" in line for line in seen):
            return [f"{name} is done."]
        return [f"{name} has asked."] if any("approve ->" in line for line in seen) else [call("approve", f"of {name}")]

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=[LongRunningFunctionTool(func=approve)])


def both(asking: Callable[[str], LlmAgent]) -> ParallelAgent:
    return ParallelAgent(name="both", sub_agents=[asking("one"), asking("two"), repeating("third")])


def followed(name: str, agent: LlmAgent) -> SequentialAgent:
    return SequentialAgent(name=name, sub_agents=[agent, repeating(f"after {agent.name}".replace(" ", "_"))])


TREES: dict[str, Callable[[Callable[[str], LlmAgent]], BaseAgent]] = {
    "alone": both,
    "in a sequence": lambda asking: SequentialAgent(name="root", sub_agents=[both(asking), repeating("last")]),
    "in a loop": lambda asking: LoopAgent(
        name="root",
        max_iterations=1,
        sub_agents=[SequentialAgent(name="in", sub_agents=[both(asking)]), repeating("last")],
    ),
    "of sequences": lambda asking: SequentialAgent(
        name="root",
        sub_agents=[
            ParallelAgent(name="both", sub_agents=[followed("a", asking("one")), followed("b", asking("two"))]),
            repeating("last"),
        ],
    ),
}


async def answered(tree: BaseAgent, sessions: CrashingSessions, first: int = 0) -> list[Any]:
    """Return the outcome after each answer: to one of two open questions, the first or the second, or to the open one."""
    clock = ManualClock()
    made = parts(served(tree, sessions), MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
    outcomes: list[Any] = []
    async with http(made.app()) as client:
        task = task_of(await patient(client.post("/", json=send()), clock))
        while task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            metadata = task["status"]["message"]["metadata"]
            ids = [each["id"] for each in metadata.get("interrupts", [])] or [metadata["interruptId"]]
            request = send(message_id=f"m-{len(outcomes) + 2}", taskId=task["id"])
            chosen = ids[first if len(ids) == 2 else 0]
            request["params"]["message"]["parts"] = [{"text": "yes", "metadata": {"interruptId": chosen}}]
            task = task_of(await patient(client.post("/", json=request), clock))
            outcomes.append(outcome(task))
    return outcomes


@taking_turns(tree=TREES, asking=[confirmed, long_running], first=[0, 1])
async def test_step_after_parallel_agents_waits_for_all_answers(
    tree: str, asking: Callable[[str], LlmAgent], first: int
) -> None:
    ran.clear()
    halfway, done = await answered(TREES[tree](asking), CrashingSessions(), first)
    now, later = ("one", "two")[first], ("two", "one")[first]
    assert halfway[0] == "INPUT_REQUIRED"
    assert f"{now} is done." in halfway[2]
    assert not {f"{later} is done.", "From last.", f"From after_{later}."} & set(halfway[2])
    said = [*done[2], done[1]]
    assert (done[0], done[1]) == ("COMPLETED", f"{later} is done." if tree == "alone" else "From last.")
    expected = {f"{each} is done." for each in ("one", "two")}
    assert all(said.count(each) == 1 for each in expected)
    assert all(said.count(f"{each} has asked.") == 1 for each in ("one", "two")) == (asking is long_running)
    assert tree != "of sequences" or {"From after_one.", "From after_two."} <= set(said)
    assert all(count == 1 for count in ran.values())


async def test_open_question_of_parallel_agent_outlives_crash() -> None:
    """End the process after each stored event of the three turns."""
    sessions = CrashingSessions()
    await answered(TREES["in a sequence"](confirmed), sessions)
    for place in places(sessions.appends):
        *halfway, done = await answered(TREES["in a sequence"](confirmed), CrashingSessions(place))
        assert len(halfway) == 1, f"cut at event {place}"
        assert "From last." not in halfway[0][2], f"cut at event {place}"
        assert done[:2] == ("COMPLETED", "From last."), f"cut at event {place}"
        assert {"one is done.", "two is done.", "From third."} <= set(done[2]), f"cut at event {place}"
