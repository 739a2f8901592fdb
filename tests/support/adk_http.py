"""An ADK agent asked through HTTP, in either dialect; what an older one answers is read as the SDK reads it."""

import json
from collections.abc import Callable
from typing import Any

import httpx
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.genai import types as genai
from google.protobuf.json_format import MessageToDict

from tests.support.adk import content
from tests.support.service import send

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
