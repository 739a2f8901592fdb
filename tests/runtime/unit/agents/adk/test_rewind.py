"""Turns that start over because of `resume: restart`: they run on the session as it was before the turn."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.genai import types as genai

from aion.adk import get_aion_context
from aion_core.agents.restarts import NO_ANSWER_AFTER_RESTART, TOO_MANY_RUNS
from aion_core.engine.agent_options import AfterCrash
from tests.runtime.unit.agents.adk.test_resumption import answering, outcome, patient, run_to_end, transferring_agent
from tests.support.adk import CrashingSessions, YieldingAgent, call, served, task_of, text_event
from tests.support.clock import ManualClock
from tests.support.rows import places, taking_turns
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

MAX_APPENDS = 20
Evidence = Callable[[InvocationContext], Awaitable[bool]]


async def in_events(ctx: InvocationContext) -> bool:
    return any(event.author == "asks" for event in ctx.session.events)


async def in_state(ctx: InvocationContext) -> bool:
    return "asked" in ctx.session.state


async def in_artifacts(ctx: InvocationContext) -> bool:
    assert ctx.artifact_service is not None
    key: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
    return await ctx.artifact_service.load_artifact(**key, filename="asked.txt") is not None


class AskingOnce(BaseAgent):
    """Agent that does nothing if it has asked before."""

    has_asked: Evidence

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        if await self.has_asked(ctx):
            return
        # ADK asks for the next event after it has stored this one, so the artifact is saved in a recorded attempt only.
        yield Event(
            author=self.name, invocation_id=ctx.invocation_id, actions=EventActions(state_delta={"began": True})
        )
        assert ctx.artifact_service is not None
        key: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
        version = await ctx.artifact_service.save_artifact(
            **key, filename="asked.txt", artifact=genai.Part(text="I have asked.")
        )
        delta = EventActions(state_delta={"asked": True}, artifact_delta={"asked.txt": version})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, actions=delta)
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=genai.ModelContent("Asked."))


EVIDENCE = {"events": in_events, "state": in_state, "artifacts": in_artifacts}
SHAPES: dict[str, Callable[[BaseAgent], Any]] = {
    "root": lambda agent: agent,
    "in a sequence": lambda agent: SequentialAgent(name="root", sub_agents=[answering("first"), agent]),
    "after a transfer": lambda agent: LlmAgent(
        name="root", model=transferring_agent(agent.name).model, sub_agents=[agent]
    ),
    "in a workflow": lambda agent: Workflow(name="root", edges=[("START", agent)]),
}


async def cut_at_each_event(make: Callable[[], Any]) -> list[tuple[str, Any, list[str]]]:
    """Return the outcome of a turn that is not disturbed, then those of turns cut at one of their events."""
    sessions = CrashingSessions()
    outcomes = [outcome(await run_to_end(served(make(), sessions)))]
    assert 1 < sessions.appends < MAX_APPENDS
    for place in places(sessions.appends):
        agent = served(make(), CrashingSessions(place), resume=AfterCrash.RESTART)
        outcomes.append(outcome(await run_to_end(agent)))
    return outcomes


@taking_turns(shape=SHAPES, evidence=EVIDENCE)
async def test_restarted_turn_does_not_see_its_lost_attempt(shape: str, evidence: str) -> None:
    whole, *cut = await cut_at_each_event(lambda: SHAPES[shape](AskingOnce(name="asks", has_asked=EVIDENCE[evidence])))
    assert whole[:2] == ("COMPLETED", "Asked.")
    assert cut == [whole] * len(cut)


class Silent(BaseAgent):
    """Agent that says something in its first run only, and keeps its count outside of the session."""

    runs: list[str]
    says: Any = None

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        self.runs.append(ctx.invocation_id)
        if len(self.runs) == 1:
            yield self.says or Event(author=self.name, actions=EventActions(state_delta={"begun": True}))
            yield Event(author=self.name, actions=EventActions(state_delta={"ended": True}))


@pytest.mark.parametrize("says", [None, text_event("Let me see.")], ids=["nothing", "a message"])
async def test_restarted_turn_without_output_fails(says: Event | None) -> None:
    """The lost attempt may have said something: it does not answer the turn."""
    agent = Silent(name="silent", runs=[], says=says and says.model_copy(update={"author": "silent"}))
    task = await run_to_end(served(agent, CrashingSessions(3), resume=AfterCrash.RESTART))
    assert outcome(task)[:2] == ("FAILED", NO_ANSWER_AFTER_RESTART)
    assert len(agent.runs) == 2


class Posting(BaseAgent):
    """Agent whose whole output are posts and a reaction."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        await get_aion_context().thread.post("On it.")
        yield Event(author=self.name, actions=EventActions(state_delta={"posted": True}))
        yield Event(author=self.name, actions=EventActions(state_delta={"ended": True}))


async def test_restarted_turn_may_repeat_its_only_post() -> None:
    whole, *cut = await cut_at_each_event(lambda: Posting(name="posting"))
    assert whole[0] == "COMPLETED"
    assert cut == [whole] * len(cut)


def remembering(artifacts: InMemoryArtifactService, fails_at: int) -> BaseAgent:
    """Return an agent that tells what it remembers, then stores its turn's number in state and in two artifacts."""

    async def load(ctx: InvocationContext, name: str) -> str:
        key: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
        found = await artifacts.load_artifact(**key, filename=name)
        return str(found.text) if found is not None else "-"

    class Remembering(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> Any:
            turn = str(ctx.user_content.parts[0].text) if ctx.user_content and ctx.user_content.parts else ""
            state = [f"{key}={value}" for key, value in sorted(ctx.session.state.items())]
            names = "all.txt", f"{turn}.txt", "user:mine.txt"
            known = [f"{name}={await load(ctx, name)}" for name in names]
            key: dict[str, Any] = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
            delta = {
                name: await artifacts.save_artifact(**key, filename=name, artifact=genai.Part(text=f"of {turn}"))
                for name in names
            }
            changes = {"last": turn, turn: "seen", "user:last": turn, "removed": None if turn == "two" else turn}
            yield Event(author=self.name, actions=EventActions(state_delta=changes, artifact_delta=delta))
            count = sum(event.author == self.name for event in ctx.session.events)
            yield Event(author=self.name, content=genai.ModelContent(f"{count} {' '.join(state)} {' '.join(known)}"))

    return Remembering(name="remembering")


async def test_restart_restores_state_and_artifacts_of_earlier_turns() -> None:
    """Cut the second of three turns. State and files of the user are not rewound, as in ADK's own rewind."""

    async def talk(*crash_at: int) -> list[Any]:
        clock, artifacts = ManualClock(), InMemoryArtifactService()
        agent = served(
            remembering(artifacts, 0), CrashingSessions(*crash_at), artifacts=artifacts, resume=AfterCrash.RESTART
        )
        made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        answers = []
        async with http(made.app()) as client:
            for number, text in enumerate(("one", "two", "three")):
                request = send(text, message_id=f"m-{number}", contextId="c-1")
                answers.append(outcome(task_of(await patient(client.post("/", json=request), clock)))[:2])
        return answers

    first = ("COMPLETED", "1  all.txt=- one.txt=- user:mine.txt=-")
    state = "last=one one=seen removed=one user:last="
    second = ("COMPLETED", f"3 {state}one all.txt=of one two.txt=- user:mine.txt=of one")
    last = (
        "COMPLETED",
        "5 last=two one=seen removed=None two=seen user:last=two all.txt=of two three.txt=- user:mine.txt=of two",
    )
    assert await talk() == [first, second, last]
    cut = ("COMPLETED", f"3 {state}two all.txt=of one two.txt=- user:mine.txt=of two")
    assert await talk(5) == [first, cut, last]
    assert await talk(6) == [first, cut, last]
    assert await talk(5, 8) == [first, cut, last]


async def test_restarted_turn_gets_its_answer_again() -> None:
    """The answer to a question continues the first turn's invocation: only the second turn's events are taken back."""

    class Books(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> Any:
            content = ctx.user_content
            given = [part.function_response for part in (content.parts if content else None) or []]
            authors = [event.author for event in ctx.session.events]
            if given and given[0] is not None and given[0].response is not None:
                yield Event(author=self.name, actions=EventActions(state_delta={"booked": True}))
                yield Event(author=self.name, content=genai.ModelContent(f"{given[0].response['result']} {authors}"))
                return
            asked = call("choose_day", f"call-{ctx.invocation_id}", question="Which day?")
            content = genai.Content(role="model", parts=[asked])
            yield Event(author=self.name, content=content, long_running_tool_ids={f"call-{ctx.invocation_id}"})

    for place in range(7):
        clock = ManualClock()
        agent = served(Books(name="books"), CrashingSessions(place), resume=AfterCrash.RESTART)
        made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        async with http(made.app()) as client:
            question = task_of(await patient(client.post("/", json=send()), clock))
            assert question["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", place
            request = send("Monday", message_id="m-2", taskId=question["id"])
            task = task_of(await patient(client.post("/", json=request), clock))
        assert outcome(task)[:2] == ("COMPLETED", "Monday ['user', 'books', 'user']"), place


async def test_number_of_adk_restarts_is_limited() -> None:
    """The first agent of the sequence makes progress in each run, which the engine's limit on tries allows."""
    events = [lambda ctx: text_event("One."), lambda ctx: text_event("Two.")]
    custom = YieldingAgent(name="custom", events=events)
    sessions = CrashingSessions(*range(6, 100, 6))
    root = SequentialAgent(name="root", sub_agents=[answering("first"), custom])
    task = await run_to_end(served(root, sessions, resume=AfterCrash.RESTART))
    assert outcome(task)[:2] == ("FAILED", TOO_MANY_RUNS)
