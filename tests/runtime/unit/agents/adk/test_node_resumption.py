"""Resumption of a Workflow's nodes after a crash: each goes on after its last stored event, and none is skipped."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from google.adk import Workflow
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.agents.context import Context
from google.adk.events import Event, EventActions
from google.adk.events.event import NodeInfo
from google.adk.workflow import JoinNode
from google.adk.workflow import node as as_node

from aion_core.agents.adk.node_resumption import ended_runs
from aion_core.engine.agent_options import AfterCrash
from tests.runtime.unit.agents.adk.test_resumption import answering, outcome, run_to_end, transferring_agent
from tests.support.adk import CrashingSessions, DecidingLlm, call, served, text_event
from tests.support.rows import places, taking_turns

ran: Counter[str] = Counter()


async def pay(amount: int) -> str:
    ran["pay"] += 1
    return f"paid {amount}"


def paying(name: str, times: int = 2) -> LlmAgent:
    """Return an agent that calls its tool twice, or so many times, then answers."""

    def decide(seen: list[str]) -> list[Any]:
        paid = sum("pay ->" in line for line in seen)
        return ["All done."] if paid == times else [f"Paying {paid}.", call("pay", amount=paid)]

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=[pay])


def finishing_task() -> LlmAgent:
    def decide(seen: list[str]) -> list[Any]:
        done = any("pay ->" in line and "paid 7" in line for line in seen)
        return [call("finish_task", result="All done.")] if done else [call("pay", amount=7)]

    return LlmAgent(name="task", mode="task", model=DecidingLlm(decide=decide), tools=[pay])


def last(node_input: Any) -> str:
    ran["last"] += 1
    return f"after {node_input}"


async def slow(node_input: Any) -> Any:
    yield text_event("Working.")
    yield Event(output="All done.")


def side_by_side() -> Workflow:
    join, one, two = JoinNode(name="join"), paying("one", 1), paying("two", 1)
    return Workflow(name="root", edges=[("START", one, join), ("START", two, join), (join, last)])


def called_by_a_node() -> Workflow:
    inner = paying("inner")

    @as_node(rerun_on_resume=True)
    async def outer(ctx: Context, node_input: Any) -> Any:
        return await ctx.run_node(inner, "go")

    return Workflow(name="root", edges=[("START", outer, last)])


def nested() -> Workflow:
    return Workflow(name="inner", edges=[("START", paying("one", 1), last)])


WORKFLOWS: dict[str, Callable[[], Workflow]] = {
    "alone": lambda: Workflow(name="root", edges=[("START", paying("one"))]),
    "in a sequence": lambda: Workflow(name="root", edges=[("START", answering("one"), paying("two"), last)]),
    "nested": lambda: Workflow(name="root", edges=[("START", answering("one"), nested())]),
    "side by side": side_by_side,
    "in task mode": lambda: Workflow(name="root", edges=[("START", answering("one"), finishing_task(), last)]),
    "called by a node": called_by_a_node,
    "a function with progress": lambda: Workflow(name="root", edges=[("START", slow, last)]),
}


def comparable(ended: tuple[str, Any, list[str]]) -> Any:
    """Return what must be equal with and without a crash: a function's messages may repeat, and branches mix."""
    state, answer, before = ended
    return state, answer, sorted(set(before))


@taking_turns(place=WORKFLOWS, stored=[True, False])
async def test_interrupted_node_goes_on_after_stored_events(place: str, stored: bool) -> None:
    """End the process at each event. A tool with a stored result is not called again, and the model has its input."""
    ran.clear()
    sessions = CrashingSessions()
    undisturbed = outcome(await run_to_end(served(WORKFLOWS[place](), sessions)))
    assert undisturbed[0] == "COMPLETED"
    once = ran["pay"]
    for at in places(sessions.appends):
        ran.clear()
        cut = outcome(await run_to_end(served(WORKFLOWS[place](), CrashingSessions(at, before=not stored))))
        assert comparable(cut) == comparable(undisturbed), f"cut at event {at}"
        assert len(cut[2]) == len(undisturbed[2]) or "progress" in place, f"cut at event {at}"
        # The loss of its process before its result is stored lets a tool run again, and one beside it.
        assert once <= ran["pay"] <= once + (2 if place == "side by side" else not stored), f"cut at event {at}"
        assert bool(ran["last"]) == (place != "alone"), f"cut at event {at}"


STEPS: dict[str, Callable[[], Any]] = {
    "sequence": lambda: SequentialAgent(name="steps", sub_agents=[answering("one"), paying("two", 1)]),
    "transfer": lambda: LlmAgent(
        name="steps", model=transferring_agent("two").model, sub_agents=[paying("two", 1), answering("three")]
    ),
}


@taking_turns(steps=STEPS, resume=AfterCrash)
async def test_interrupted_node_with_agents_below_fails_or_restarts(steps: str, resume: AfterCrash) -> None:
    """ADK would begin the node again and skip some of its agents, so the turn fails, or runs again from its message."""

    def tree() -> Workflow:
        return Workflow(name="root", edges=[("START", STEPS[steps](), last)])

    sessions = CrashingSessions()
    undisturbed = outcome(await run_to_end(served(tree(), sessions)))
    states = Counter[str]()
    cuts = places(sessions.appends) if resume is AfterCrash.RESTART else range(1, sessions.appends + 1)
    for at in cuts:
        ran.clear()
        state, answer, before = outcome(await run_to_end(served(tree(), CrashingSessions(at), resume=resume)))
        states[state] += 1
        if state == "FAILED":
            assert "the node 'steps'" in str(answer), f"cut at event {at}"
        else:
            assert (state, answer, set(before)) == (*undisturbed[:2], set(undisturbed[2])), f"cut at event {at}"
            assert ran["last"], f"cut at event {at}"
    assert states["COMPLETED"] > 3
    assert bool(states["FAILED"]) == (resume is AfterCrash.FAIL)


def test_ended_runs_are_those_that_checkpoints_record() -> None:
    def of(path: str) -> Event:
        return Event(author="any", node_info=NodeInfo(path=path))

    def checkpoint(author: str = "flow", **status: int) -> Event:
        nodes = {name: {"status": each} for name, each in status.items()}
        return Event(author=author, actions=EventActions(agent_state={"nodes": nodes}))

    first = [of("root@1/flow@1/one@1"), of("root@1/flow@1/two@1/deep@1"), of("root@1/other@1")]
    assert ended_runs("flow", "root@1/flow@1", first) == set()
    assert ended_runs("flow", "root@1/flow@1", [*first, checkpoint("other", one=3), checkpoint(two=3, one=2)]) == {
        "two@1"
    }
    again = [*first, checkpoint(one=3), of("root@1/flow@1/one@2"), checkpoint(one=2)]
    assert ended_runs("flow", "root@1/flow@1", again) == {"one@1"}
