"""LangGraph graph, ADK sequence and executor that write a note to a file when a step of a turn begins or ends.

The first word of a message is the name of its turn, the second the length of a step in seconds.
"""

import asyncio
import math
import os
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types as genai
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from aion.langgraph.stream import emit_message
from tests.support.adk import content, scripted_model, texts

STEPS = ["plan", "speak", "check", "close"]
STREAMED = ("speak", "check")
SENTENCE = "The quick brown fox jumps over the lazy dog, and the dog sleeps on. "


@dataclass(frozen=True)
class Note:
    """Begin or end of a step, with the process id and the monotonic time."""

    turn: str
    step: str
    word: str
    pid: int
    at: float


def read_notes(file: Path) -> list[Note]:
    """Return the notes of all processes, in order."""
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [Note(turn, step, word, int(pid), float(at)) for turn, step, word, pid, at in lines]


@contextmanager
def noted(text: str, step: str) -> Iterator[tuple[str, float]]:
    """Write a note at the step's begin and, unless it raises, at its end; yield the turn's name and the step's seconds."""
    turn, seconds, *_ = text.split()

    def note(word: str) -> None:
        with Path(os.environ["NOTED_IN"]).open("a") as notes:
            notes.write(f"{turn} {step} {word} {os.getpid()} {time.monotonic()}\n")

    note("begin")
    yield turn, float(seconds)
    note("end")


def spoken_in(seconds: float) -> str:
    """Return the text of a step; the step streams it character by character, about 22 characters a second."""
    return SENTENCE * math.ceil(seconds / 3)


def step(name: str) -> Any:
    """Return the graph node of this step; the node streams sentences or emits a message."""

    async def node(state: MessagesState, writer: StreamWriter) -> dict[str, Any]:
        with noted(str(state["messages"][0].content), name) as (turn, seconds):
            if name in STREAMED:
                spoken = spoken_in(seconds)
                model = FakeListChatModel(responses=[spoken], sleep=seconds / max(1, len(spoken)))
                return {"messages": [await model.ainvoke(state["messages"])]}
            emit_message(writer, AIMessage(f"{turn} did {name}"))
            await asyncio.sleep(seconds)
            return {"messages": [AIMessage(f"{turn}: {name} is done")]}

    return node


builder = StateGraph(MessagesState)
for name in STEPS:
    builder.add_node(name, step(name))
for before, after in zip([START, *STEPS], STEPS, strict=False):
    builder.add_edge(before, after)
graph = builder.compile()


class NotingModel(BaseLlm):
    """Model of an agent in the ADK sequence; it streams `<turn>: <agent> is done`."""

    model: str = "speaker"
    speaks_for: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        text = texts(llm_request.contents)[0].removeprefix("user: ")
        with noted(text, self.speaks_for) as (turn, seconds):
            words = [f"{turn}: ", f"{self.speaks_for} ", "is ", "done"]
            for word in words:
                if stream:
                    yield LlmResponse(content=content(genai.Part(text=word)), partial=True)
                await asyncio.sleep(seconds / len(words))
        async for response in scripted_model(["".join(words)]).generate_content_async(llm_request, stream=False):
            yield response


sequence = SequentialAgent(
    name="sequence", sub_agents=[LlmAgent(name=name, model=NotingModel(speaks_for=name)) for name in STEPS]
)


class StepsExecutor(AgentExecutor):
    """Executor that sends `<turn>: <step> is done` after each step. After a crash it starts over."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Run the steps."""
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        for name in STEPS:
            with noted(context.get_user_input(), name) as (turn, seconds):
                await asyncio.sleep(seconds)
            said = updater.new_agent_message([Part(text=f"{turn}: {name} is done")])
            await (updater.complete(said) if name == STEPS[-1] else updater.start_work(said))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel nothing: no test does."""
        raise NotImplementedError


def expected_texts(agent: str, turn: str, seconds: float) -> list[str]:
    """Return the agent's texts in the task's history after a turn without faults; the last text is the reply."""
    if agent != "graph":
        return [f"{turn}: {name} is done" for name in STEPS]
    spoken = [spoken_in(seconds)]
    return [
        text
        for name in STEPS
        for text in (spoken if name in STREAMED else [f"{turn} did {name}", f"{turn}: {name} is done"])
    ]


def streamed_texts(agent: str, turn: str, seconds: float) -> list[str]:
    """Return the texts that a turn without faults streams."""
    if agent != "graph":
        return expected_texts(agent, turn, seconds)
    # The message of the first step is streamed too, once the next step begins and shows that it isn't the answer.
    return [spoken_in(seconds), f"{turn}: {STEPS[0]} is done"]
