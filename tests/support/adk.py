"""ADK without a network: scripted models, agents in the real adapter, and requests over HTTP."""

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from google.adk.agents import BaseAgent, LlmAgent
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
from tests.support.histories import json_before_status
from tests.support.service import send

Script = list[Any]
"""Output of one model call: its texts are streamed in order, and other parts follow in the aggregated response."""


class ScriptedLlm(BaseLlm):
    """Model with one script for each call: each text becomes a partial response, and the aggregated response is last.

    An exception in a script is raised. A function in a script receives the request and returns the entry in its place.
    """

    model: str = "scripted"
    scripts: list[Script]
    seen: list[list[genai.Content]] = Field(default_factory=list)
    """The contents of each request."""
    instructions: list[Any] = Field(default_factory=list)
    """The instructions of each request."""

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
    """Return a model's content with these parts."""
    return genai.Content(role="model", parts=list(parts))


def scripted_model(*scripts: Script) -> ScriptedLlm:
    """Return a model with these scripts."""
    return ScriptedLlm(scripts=[list(script) for script in scripts])


def llm_agent(*scripts: Script, name: str = "root", **options: Any) -> LlmAgent:
    """Return an LLM agent with a scripted model."""
    return LlmAgent(name=name, model=scripted_model(*scripts), **options)


def call(name: str, call_id: str | None = None, **args: Any) -> genai.Part:
    """Return a model's call of a tool."""
    return genai.Part(function_call=genai.FunctionCall(id=call_id, name=name, args=args))


def texts(contents: list[genai.Content]) -> list[str]:
    """Return a model's input as lines: each text with its role, and each tool call with its result."""
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
    """Return the agent in the production adapter; by default its sessions and artifacts are in memory."""
    given = sessions or InMemorySessionService()
    artifacts = options.pop("artifacts", None) or InMemoryArtifactService()
    factory = given if not isinstance(given, BaseSessionService) else lambda fence: given
    return AdkAgent(agent, factory, lambda request: artifacts, **options)


class DecidingLlm(BaseLlm):
    """Model that computes its script from its input, so that a repeated call with equal input gives equal output."""

    model: str = "deciding"
    decide: Callable[[list[str]], Script]
    calls: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.calls += 1
        model = scripted_model(self.decide(texts(llm_request.contents)))
        async for response in model.generate_content_async(llm_request, stream):
            yield response


class CrashingSessions(InMemorySessionService):
    """Session service that simulates the loss of its process at some appends, counted from 1.

    The event is stored before the loss; with `before` the event is lost too.
    """

    def __init__(self, *crash_at: int, before: bool = False) -> None:
        super().__init__()
        self.crash_at, self.before, self.appends = set(crash_at), before, 0

    async def append_event(self, session: Session, event: Event) -> Event:
        self.appends += 1
        crashes = self.appends in self.crash_at
        if crashes and self.before:
            raise StoreUnavailable("the process is gone")
        stored = await super().append_event(session, event)
        if crashes:
            raise StoreUnavailable("the process is gone")
        return stored

    def stored(self) -> list[Event]:
        """Return all events of the only session."""
        ((_, users),) = self.sessions.items()
        ((_, sessions),) = users.items()
        ((_, session),) = sessions.items()
        return list(session.events)


# ── Requests over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────

DIALECTS = ("SendMessage", "message/send")


def task_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the task of a response in its v1 form."""
    assert "result" in answer, answer
    result = answer["result"]
    if "task" in result:
        task: dict[str, Any] = result["task"]
        return task
    return MessageToDict(conversions.to_core_task(v03.Task.model_validate(result)))


async def ask(
    client: httpx.AsyncClient, dialect: str, text: str = "hi", *, message_id: str = "m-1", **message: Any
) -> dict[str, Any]:
    """Send a text in blocking mode; return the task."""
    return task_of((await client.post("/", json=send(text, method=dialect, message_id=message_id, **message))).json())


async def ask_parts(client: httpx.AsyncClient, dialect: str, *parts: dict[str, Any], **message: Any) -> dict[str, Any]:
    """Send parts, given in their v1 form, in blocking mode; return the task."""
    request = send(method=dialect, **message)
    old = "/" in dialect
    request["params"]["message"]["parts"] = [as_v03(part) if old else part for part in parts]
    return task_of((await client.post("/", json=request)).json())


async def stream(client: httpx.AsyncClient, text: str = "hi", **message: Any) -> list[dict[str, Any]]:
    """Return the results of a streaming response."""
    answer = await client.post("/", json=send(text, method="SendStreamingMessage", **message))
    return [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]


def answer_text(task: dict[str, Any]) -> str | None:
    """Return the text of the task's answer."""
    message = task["status"].get("message")
    return "".join(part.get("text", "") for part in message["parts"]) if message else None


def earlier(task: dict[str, Any]) -> list[str]:
    """Return the texts of the task's messages before its answer, or before its question or the reason of a failure."""
    return ["".join(part.get("text", "") for part in message["parts"]) for message in json_before_status(task)]


def deltas(frames: list[dict[str, Any]]) -> list[tuple[str, bool, bool]]:
    """Return `text`, `append` and `lastChunk` of each stream delta."""
    updates = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    return [
        (each["artifact"]["parts"][0]["text"], each.get("append", False), each.get("lastChunk", False))
        for each in updates
        if each["artifact"]["artifactId"] == "aion:stream-delta"
    ]


def as_v03(part: dict[str, Any]) -> dict[str, Any]:
    for kind in ("text", "data"):
        if kind in part:
            return {"kind": kind, **part}
    file = {"bytes": part["raw"]} if "raw" in part else {"uri": part["url"]}
    names = {"mediaType": "mimeType", "filename": "name"}
    return {"kind": "file", "file": {**file, **{names[key]: part[key] for key in names if key in part}}}


class YieldingAgent(BaseAgent):
    """Custom agent with fixed events, or with events computed from its context."""

    events: list[Any]

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        for given in self.events:
            made = given(ctx) if callable(given) else given
            for event in made if isinstance(made, list) else [made]:
                yield event.model_copy(update={"author": event.author or self.name})


def text_event(*texts: str, partial: bool | None = None, parts: Any = (), **actions: Any) -> Event:
    """Return an event of YieldingAgent with these texts and parts."""
    made = [*(genai.Part(text=text) for text in texts), *parts]
    return Event(partial=partial, content=content(*made) if made else None, actions=EventActions(**actions))


def yielding_agent(*events: Event | Callable[[Any], Any]) -> YieldingAgent:
    """Return a YieldingAgent with these events."""
    return YieldingAgent(name="yielding", events=list(events))
