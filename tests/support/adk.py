"""ADK without a network: a model that speaks from a script, and an agent served by the real adapter."""

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.genai import types as genai
from google.protobuf.json_format import MessageToDict
from pydantic import Field

from aion_core.agents.adk.agent import AdkAgent
from aion_core.errors import StoreUnavailable
from tests.support.service import send

Script = list[Any]
"""What one call of the model gives: texts are streamed, one after another; then what else there is, whole."""


class ScriptedLlm(BaseLlm):
    """Speaks one script for each call; texts come as partial responses, and at the end the whole as one.

    An exception in a script is raised in its place, a function in it is called with the request, for its part.
    """

    model: str = "scripted"
    scripts: list[Script]
    seen: list[list[genai.Content]] = Field(default_factory=list)
    """What the model was asked, call by call."""
    instructions: list[Any] = Field(default_factory=list)
    """And under which instructions."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append([content.model_copy(deep=True) for content in llm_request.contents])
        self.instructions.append(llm_request.config.system_instruction)
        whole: list[genai.Part] = []
        text = ""
        for given in self.scripts.pop(0):
            given = given(llm_request) if callable(given) else given
            if isinstance(given, Exception):
                raise given
            if isinstance(given, LlmResponse):
                yield given
                return
            if isinstance(given, str):
                text += given
                if stream:
                    yield LlmResponse(content=content(genai.Part(text=given)), partial=True)
            else:
                whole.append(given)
        parts = [genai.Part(text=text)] if text else []
        yield LlmResponse(content=content(*parts, *whole), partial=False if stream else None)


def content(*parts: genai.Part) -> genai.Content:
    """What a model says."""
    return genai.Content(role="model", parts=list(parts))


def saying(*scripts: Script) -> ScriptedLlm:
    """A model with these scripts."""
    return ScriptedLlm(scripts=[list(script) for script in scripts])


def call(name: str, call_id: str | None = None, **args: Any) -> genai.Part:
    """The part by which a model calls a tool."""
    return genai.Part(function_call=genai.FunctionCall(id=call_id, name=name, args=args))


def texts(contents: list[genai.Content]) -> list[str]:
    """What a model was asked, as lines: who said what, and which tools gave what."""
    found = []
    for each in contents:
        for part in each.parts or []:
            if part.text:
                found.append(f"{each.role}: {part.text}")
            elif part.function_call is not None:
                found.append(f"{each.role}: {part.function_call.name}({part.function_call.args})")
            elif part.function_response is not None:
                found.append(f"{each.role}: {part.function_response.name} -> {part.function_response.response}")
    return found


def served(agent: Any, sessions: BaseSessionService | Callable[..., Any] | None = None, **options: Any) -> AdkAgent:
    """The agent behind the real adapter; its sessions and artifacts last as long as the adapter, unless they are given."""
    kept = sessions or InMemorySessionService()
    artifacts = options.pop("artifacts", None) or InMemoryArtifactService()
    give = kept if not isinstance(kept, BaseSessionService) else lambda asked: kept
    return AdkAgent(agent, give, lambda asked: artifacts, **options)


class DecidingLlm(BaseLlm):
    """Decides by what it is asked what it says, so that it says the same when it is asked the same again."""

    model: str = "deciding"
    decide: Callable[[list[str]], Script]
    calls: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.calls += 1
        speaker = saying(self.decide(texts(llm_request.contents)))
        async for response in speaker.generate_content_async(llm_request, stream):
            yield response


class DyingSessions(InMemorySessionService):
    """Loses the process at some of its appends, counted from 1: the event is stored, unless that is `before`."""

    def __init__(self, *die_at: int, before: bool = False) -> None:
        super().__init__()
        self.die_at, self.before, self.appends = set(die_at), before, 0

    async def append_event(self, session: Session, event: Event) -> Event:
        self.appends += 1
        dies = self.appends in self.die_at
        if dies and self.before:
            raise StoreUnavailable("the process is gone")
        stored = await super().append_event(session, event)
        if dies:
            raise StoreUnavailable("the process is gone")
        return stored

    def stored(self) -> list[Event]:
        """All events of the only session."""
        ((_, users),) = self.sessions.items()
        ((_, sessions),) = users.items()
        ((_, session),) = sessions.items()
        return list(session.events)


# ── Requests over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────

DIALECTS = ("SendMessage", "message/send")


def task_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The task of an answer, as v1 has it."""
    assert "result" in answer, answer
    result = answer["result"]
    if "task" in result:
        task: dict[str, Any] = result["task"]
        return task
    return MessageToDict(conversions.to_core_task(v03.Task.model_validate(result)))


async def ask(
    client: httpx.AsyncClient, dialect: str, text: str = "hi", *, message_id: str = "m-1", **message: Any
) -> dict[str, Any]:
    """The task that a blocking send returns."""
    return task_of((await client.post("/", json=send(text, method=dialect, message_id=message_id, **message))).json())


async def ask_parts(client: httpx.AsyncClient, dialect: str, *parts: dict[str, Any], **message: Any) -> dict[str, Any]:
    """As `ask`, with these parts as v1 has them."""
    request = send(method=dialect, **message)
    old = "/" in dialect
    request["params"]["message"]["parts"] = [_v03(part) if old else part for part in parts]
    return task_of((await client.post("/", json=request)).json())


async def stream(client: httpx.AsyncClient, text: str = "hi", **message: Any) -> list[dict[str, Any]]:
    """What a stream says, frame by frame."""
    answer = await client.post("/", json=send(text, method="SendStreamingMessage", **message))
    return [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]


def said(task: dict[str, Any]) -> str | None:
    """The text of the task's answer."""
    message = task["status"].get("message")
    return "".join(part.get("text", "") for part in message["parts"]) if message else None


def history(task: dict[str, Any]) -> list[str]:
    """What was said in the task before its answer: the text of each message."""
    return ["".join(part.get("text", "") for part in message["parts"]) for message in task.get("history", [])]


def deltas(frames: list[dict[str, Any]]) -> list[tuple[str, bool, bool]]:
    """The stream deltas: text, append, last."""
    updates = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    return [
        (each["artifact"]["parts"][0]["text"], each.get("append", False), each.get("lastChunk", False))
        for each in updates
        if each["artifact"]["artifactId"] == "aion:stream-delta"
    ]


def _v03(part: dict[str, Any]) -> dict[str, Any]:
    if "text" in part:
        return {"kind": "text", "text": part["text"]}
    if "data" in part:
        return {"kind": "data", "data": part["data"]}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    names = {"mediaType": "mimeType", "filename": "name"}
    return {"kind": "file", "file": {**file, **{names[key]: part[key] for key in names if key in part}}}


class Yielding(BaseAgent):
    """An agent of its own kind that yields what it is given, or what a function makes of its context."""

    events: list[Any]

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        for given in self.events:
            made = given(ctx) if callable(given) else given
            for event in made if isinstance(made, list) else [made]:
                yield event.model_copy(update={"author": event.author or self.name})


def says(*texts: str, partial: bool | None = None, parts: Any = (), **actions: Any) -> Event:
    """An event with these texts as its parts, and others; the agent that yields it is its author."""
    made = [*(genai.Part(text=text) for text in texts), *parts]
    return Event(partial=partial, content=content(*made) if made else None, actions=EventActions(**actions))


def agent(*events: Event | Callable[[Any], Any]) -> Yielding:
    """An agent that yields these."""
    return Yielding(name="yielding", events=list(events))
