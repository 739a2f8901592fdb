"""Generated trees of ADK agents: each text is streamed once and whole, and each message is recorded once."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from a2a.types import TaskState
from google.adk.agents import BaseAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions
from google.genai import types as genai
from hypothesis import given, settings
from hypothesis import strategies as st

from aion_core.engine.agent import Emission, TurnRequest
from tests.runtime.unit.agents.adk.test_agent_streams import Queued
from tests.runtime.unit.agents.folding import fold, text_of
from tests.support.adk import call, content, served
from tests.support.service import http, parts, send

EXAMPLES = 1000 if os.environ.get("SIMULATION_DEEP") else 25
"""Number of generated agents; each takes 35 ms of CPU."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning"),
    pytest.mark.timeout(900),
]


@dataclass
class Said:
    """Texts that the agents of one turn sent: streamed, as messages, in artifacts, or by failed model calls."""

    streamed: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    artifacts: set[str] = field(default_factory=set)
    aborted: set[str] = field(default_factory=set)
    """Texts of failed model calls. They are streamed unless another text has delayed them."""
    questions: list[str] = field(default_factory=list)
    """Names of the long-running calls."""


@dataclass(frozen=True)
class TreeWords:
    """Message of an agent: chunks, then perhaps the complete event; or an artifact in place of the message."""

    chunks: int
    whole: bool
    pauses: tuple[int, ...]
    """Number of event loop iterations before each event, in which other agents run."""
    artifact: bool = False
    ends: str = ""
    """`call` for a tool call beside the text, `asks` for a long-running one, `abort` for a failed model call."""


class SpeakingAgent(BaseAgent):
    """Agent with a script of messages. It counts its runs, so that each text is unique."""

    script: tuple[TreeWords, ...]
    said: Any
    runs: int = 0

    async def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        self.runs += 1
        for number, words in enumerate(self.script):
            key = f"{self.name}.{self.runs}.{number}"
            pauses = iter((*words.pauses, *[0] * 9))
            if words.artifact:
                file = genai.Part.from_bytes(data=b"file", mime_type="text/plain")
                place = {"app_name": ctx.app_name, "user_id": ctx.user_id, "session_id": ctx.session.id}
                await ctx.artifact_service.save_artifact(filename=key, artifact=file, **place)
                self.said.artifacts.add(key)
                yield Event(author=self.name, branch=ctx.branch, actions=EventActions(artifact_delta={key: 0}))
                continue
            chunks = [f"[{key}/{n}]" for n in range(words.chunks)]
            for chunk in chunks:
                await turns_of_loop(next(pauses))
                yield self.event(ctx, chunk, partial=True)
            if words.ends == "abort":
                self.said.aborted.add("".join(chunks))
                yield Event(author=self.name, branch=ctx.branch, error_code="UNAVAILABLE")
                # After the failed model call, the agent sends a different text.
                chunks = []
            text = "".join(chunks) or f"[{key}]"
            if chunks:
                self.said.streamed[text] += 1
            self.said.messages[text] += 1
            if words.ends in ("call", "asks"):
                async for event in self.calling(ctx, text, key, asks=words.ends == "asks"):
                    yield event
            elif words.whole or not chunks:
                await turns_of_loop(next(pauses))
                yield self.event(ctx, text, partial=None)

    async def calling(self, ctx: Any, text: str, key: str, *, asks: bool) -> AsyncGenerator[Event, None]:
        """Yield an event with the text and a tool call, then its result; with `asks` the client sends the result."""
        asked = call(f"tool-{key}", f"call-{key}")
        given: dict[str, Any] = {"author": self.name, "branch": ctx.branch}
        waits = {f"call-{key}"} if asks else None
        yield Event(**given, content=content(genai.Part(text=text), asked), long_running_tool_ids=waits)
        if asks:
            self.said.questions.append(f"tool-{key}")
            return
        response = genai.FunctionResponse(id=f"call-{key}", name=f"tool-{key}", response={"result": "seen"})
        yield Event(**given, content=genai.Content(role="user", parts=[genai.Part(function_response=response)]))

    def event(self, ctx: Any, text: str, *, partial: bool | None) -> Event:
        return Event(author=self.name, branch=ctx.branch, partial=partial, content=content(genai.Part(text=text)))


async def turns_of_loop(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class Merged(Queued):
    """Agent that runs its agents at once, and reads their events from one queue."""

    at_once: bool = True


@dataclass(frozen=True)
class Shape:
    """Shape of an agent tree: either a workflow with further shapes, or a single agent with its script."""

    kind: type[BaseAgent]
    inner: tuple["Shape", ...] = ()
    script: tuple[TreeWords, ...] = ()


PAUSES = st.lists(st.integers(0, 6), max_size=4).map(tuple)
STREAMED = st.builds(TreeWords, chunks=st.integers(0, 3), whole=st.just(True), pauses=PAUSES)
UNFINISHED = st.builds(TreeWords, chunks=st.integers(1, 3), whole=st.just(False), pauses=PAUSES)
CALLS = st.builds(
    TreeWords,
    chunks=st.integers(0, 3),
    whole=st.just(True),
    pauses=PAUSES,
    ends=st.sampled_from(["call", "call", "asks"]),
)
ABORTED = st.builds(TreeWords, chunks=st.integers(1, 3), whole=st.just(True), pauses=PAUSES, ends=st.just("abort"))
ARTIFACT = st.builds(TreeWords, chunks=st.just(0), whole=st.just(False), pauses=PAUSES, artifact=st.just(True))
SCRIPTS = st.builds(
    lambda messages, last: (*messages, *last),
    st.lists(st.one_of(STREAMED, STREAMED, STREAMED, ARTIFACT, CALLS, ABORTED), min_size=1, max_size=3),
    # Put partial text without a final event last, because it becomes a message only when its agent ends.
    st.lists(UNFINISHED, max_size=1),
)
SPEAKERS = st.builds(Shape, kind=st.just(SpeakingAgent), script=SCRIPTS)
TREES = st.recursive(
    SPEAKERS,
    lambda inner: st.builds(
        Shape,
        kind=st.sampled_from([ParallelAgent, ParallelAgent, SequentialAgent, LoopAgent, Queued, Merged]),
        inner=st.lists(inner, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=5,
)


def tree(shape: Shape, said: Said, name: str = "root", *, queued: bool = False) -> BaseAgent:
    if shape.kind is SpeakingAgent:
        return SpeakingAgent(name=name, script=shape.script, said=said)
    queued = queued or issubclass(shape.kind, Queued)
    inner = [tree(each, said, f"{name}_{n}", queued=queued) for n, each in enumerate(shape.inner)]
    # In a queue, nothing separates an agent's text without a complete event from the text of its next run.
    options: dict[str, Any] = {"max_iterations": 1 if queued else 2} if shape.kind is LoopAgent else {}
    return shape.kind(name=name, sub_agents=inner, **options)


class CurrentAgent:
    """Agent of a served app that can be replaced between turns."""

    def __init__(self) -> None:
        self.agent: Any = None

    def load(self) -> None: ...

    def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        return self.agent.run(request)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def current() -> CurrentAgent:
    return CurrentAgent()


def test_random_adk_agent_trees_stream_each_text_once(current: CurrentAgent) -> None:
    app = parts(current).app()

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(shape=TREES, old=st.booleans())
    def holds(shape: Shape, old: bool) -> None:
        said = Said()
        current.agent = served(tree(shape, said))

        async def turn() -> str:
            method = "message/stream" if old else "SendStreamingMessage"
            async with http(app) as client:
                holds.number += 1  # type: ignore[attr-defined]
                message_id = f"m-{holds.number}"  # type: ignore[attr-defined]
                return (await client.post("/", json=send(message_id=message_id, method=method))).text

        folded = fold(asyncio.run(turn()))
        texts = Counter(folded.texts)
        assert all(count == 1 for count in texts.values())
        assert {text for text in texts if text not in said.aborted} == set(said.streamed)
        messages = [text_of(message) for message in folded.messages.values()]
        if said.questions:
            assert folded.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            assert all(name in messages[-1] for name in said.questions)
            messages.pop()
        assert Counter(messages) == said.messages
        assert not folded.repeated.total()
        assert {artifact.name for artifact in folded.artifacts} == said.artifacts

    holds.number = 0  # type: ignore[attr-defined]
    holds()
