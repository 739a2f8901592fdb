"""Complete events that arrive after the end of their agent: each text is one message nevertheless."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk.agents import BaseAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event
from google.adk.models.llm_response import LlmResponse
from google.genai import types as genai

from aion.adk import get_aion_context
from tests.support.adk import (
    answer_text,
    ask,
    call,
    content,
    deltas,
    earlier,
    llm_agent,
    served,
    stream,
    text_event,
    yielding_agent,
)
from tests.support.service import http, parts

pytestmark = pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning")


class Queued(BaseAgent):
    """Agent that reads the events of its agents, one after another or all at once, from one queue."""

    at_once: bool = False

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()

        async def pump(agents: list[BaseAgent]) -> None:
            for agent in agents:
                async for event in agent.run_async(ctx):
                    await queue.put(event)
            await queue.put(None)

        groups = [[agent] for agent in self.sub_agents] if self.at_once else [self.sub_agents]
        tasks = [asyncio.create_task(pump(agents)) for agents in groups]
        for _ in tasks:
            while (event := await queue.get()) is not None:
                yield event
        await asyncio.gather(*tasks)


class Collecting(BaseAgent):
    """Agent that passes on chunks at once, and the complete events of its agents at its end."""

    says: str = ""
    edits: Callable[[Event], Event] = lambda event: event
    fails: bool = False

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        complete = []
        for agent in self.sub_agents:
            async for event in agent.run_async(ctx):
                if event.partial:
                    yield event
                else:
                    complete.append(event)
        if self.says:
            yield Event(author=self.name, content=content(genai.Part(text=self.says)))
        if self.fails:
            raise ValueError
        for event in complete:
            yield self.edits(event)


class Passing(BaseAgent):
    """Agent that passes on each event at once, then perhaps says something itself."""

    says: str = ""
    replies: str = ""

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        for agent in self.sub_agents:
            async for event in agent.run_async(ctx):
                yield event
        if self.says:
            yield Event(author=self.name, content=content(genai.Part(text=self.says)))
        if self.replies:
            await get_aion_context().thread.reply(self.replies)


ONE, TWO = ["One ", "two ", "three."], ["Four ", "five ", "six."]


def one(*more: list[Any], **options: Any) -> BaseAgent:
    return llm_agent(ONE, *more, name="one", **options)


def two() -> BaseAgent:
    return llm_agent(TWO, name="two")


def chunks_only(*texts: str, name: str = "chunks") -> BaseAgent:
    """Return an agent that yields no complete event."""
    agent = yielding_agent(lambda ctx: [text_event(text, partial=True) for text in texts])
    return agent.model_copy(update={"name": name})


def edited(event: Event) -> Event:
    if event.content is None:
        return event
    return event.model_copy(update={"content": content(genai.Part(text="Checked."))})


def look() -> str:
    return "a file"


def queued(*agents: BaseAgent, at_once: bool = False, name: str = "root") -> BaseAgent:
    return Queued(name=name, sub_agents=list(agents), at_once=at_once)


def collecting(*agents: BaseAgent, name: str = "root", **options: Any) -> BaseAgent:
    return Collecting(name=name, sub_agents=list(agents), **options)


def passing(*agents: BaseAgent, name: str = "root", **options: Any) -> BaseAgent:
    return Passing(name=name, sub_agents=list(agents), **options)


def sequence(*agents: BaseAgent) -> BaseAgent:
    return SequentialAgent(name="root", sub_agents=list(agents))


A, B = "One two three.", "Four five six."
TREES: dict[str, tuple[Callable[[], BaseAgent], list[str]]] = {
    "queue": (lambda: queued(one()), [A]),
    "queue of two": (lambda: queued(one(), two()), [A, B]),
    "queue in a sequence": (lambda: sequence(queued(one(), name="outer"), two()), [A, B]),
    "queue in a queue": (lambda: queued(queued(one(), name="inner"), two()), [A, B]),
    "queue of a sequence": (lambda: queued(SequentialAgent(name="inner", sub_agents=[one(), two()])), [A, B]),
    "queue of chunks only": (lambda: queued(chunks_only("Hel", "lo.")), ["Hello."]),
    "queue of chunks only, then another": (lambda: queued(chunks_only("Hel", "lo."), two()), ["Hello.", B]),
    "queue of an agent with tools": (
        lambda: queued(llm_agent(["Let me ", "see.", call("look")], ONE, name="one", tools=[look])),
        ["Let me see.", A],
    ),
    "complete events last": (lambda: collecting(one()), [A]),
    "complete events last, of two": (lambda: collecting(one(), two()), [A, B]),
    "complete events last, in a sequence": (lambda: sequence(collecting(one(), name="outer"), two()), [A, B]),
    "complete events last, of a loop": (
        lambda: collecting(LoopAgent(name="loop", sub_agents=[one(TWO)], max_iterations=2)),
        [A, B],
    ),
    "complete events last, of equal texts": (
        lambda: collecting(LoopAgent(name="loop", sub_agents=[one(ONE)], max_iterations=2)),
        [A, A],
    ),
    "edited complete event last": (lambda: collecting(one(), edits=edited), ["Checked."]),
    "a text of its own before complete events": (lambda: collecting(one(), says="Checking."), ["Checking.", A]),
    "chunks only, then another": (lambda: passing(chunks_only("Hel", "lo."), two()), ["Hello.", B]),
    "chunks only of two": (
        lambda: passing(chunks_only("Hel", "lo.", name="a"), chunks_only("B", "ye.", name="b")),
        ["Hello.", "Bye."],
    ),
    "chunks only of a loop": (
        lambda: passing(LoopAgent(name="loop", sub_agents=[chunks_only("Hel", "lo.")], max_iterations=2)),
        ["Hello.", "Hello."],
    ),
    "chunks only, then its own text": (lambda: passing(chunks_only("Hel", "lo."), says="Bye."), ["Hello.", "Bye."]),
    "chunks only, then a reply": (lambda: passing(chunks_only("Hel", "lo."), replies="Bye."), ["Hello.", "Bye."]),
    "chunks only, then a sequence": (
        lambda: sequence(passing(chunks_only("Hel", "lo."), name="outer"), two()),
        ["Hello.", B],
    ),
}


@pytest.mark.parametrize("name", TREES)
async def test_late_complete_event_does_not_repeat_text(name: str, dialect: str) -> None:
    build, said = TREES[name]
    async with http(parts(served(build())).app()) as client:
        task = await ask(client, dialect)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    told = [*earlier(task)[1:], answer_text(task)]
    assert (sorted(map(str, told)), told[-1]) == (sorted(said), said[-1])
    if not name.startswith("a text"):
        assert told == said


@pytest.mark.parametrize("name", TREES)
async def test_late_complete_event_does_not_stream_text_again(name: str) -> None:
    build, said = TREES[name]
    async with http(parts(served(build())).app()) as client:
        frames = await stream(client)
    assert "".join(text for text, _, _ in deltas(frames)) == STREAMED.get(name, "".join(said))


STREAMED = {
    "edited complete event last": A,
    "a text of its own before complete events": A,
    "chunks only, then its own text": "Hello.",
    "chunks only, then a reply": "Hello.",
}
"""Streamed text, for agents that don't stream all of their messages."""


@pytest.mark.parametrize("queue", [False, True])
async def test_merged_agents_say_each_text_once(dialect: str, queue: bool) -> None:
    """Two agents run at once, and their events arrive after both have ended."""
    agents = [one(), two()]
    inner = [ParallelAgent(name="both", sub_agents=agents)] if not queue else agents
    async with http(parts(served(queued(*inner, at_once=queue))).app()) as client:
        task = await ask(client, dialect)
    assert sorted([*earlier(task)[1:], str(answer_text(task))]) == sorted([A, B])


async def test_late_failure_of_model_discards_its_text(dialect: str) -> None:
    cut = llm_agent(["Half an", LlmResponse(error_code="SAFETY")], name="one")
    async with http(parts(served(collecting(cut))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_FAILED", ["hi"])
    assert "SAFETY" in str(answer_text(task))


async def test_text_of_ended_agent_is_recorded_before_failure(dialect: str) -> None:
    async with http(parts(served(collecting(one(), fails=True))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_FAILED", ["hi", A])


async def test_cut_text_is_no_message_of_failed_turn(dialect: str) -> None:
    """The agent fails while most events of an ended agent are still in its queue."""

    class Failing(Queued):
        async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
            events = super()._run_async_impl(ctx)
            yield await anext(events)
            raise ValueError

    async with http(parts(served(Failing(name="root", sub_agents=[one()]))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_FAILED", ["hi"])


async def test_question_follows_text_of_queued_agent(dialect: str) -> None:
    """One agent says something in chunks only, and another one asks the client."""
    asks = Event(content=content(call("approve", "c-1")), long_running_tool_ids={"c-1"})
    asking = yielding_agent(asks).model_copy(update={"name": "asking"})
    async with http(parts(served(queued(chunks_only("Hel", "lo."), asking))).app()) as client:
        task = await ask(client, dialect)
    assert (task["status"]["state"], earlier(task)) == ("TASK_STATE_INPUT_REQUIRED", ["hi", "Hello."])
