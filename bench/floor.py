"""Lower bound of the comparison: the graph in a bare Starlette app, without tasks, storage or validation."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from bench.chat import Chat, in_memory


async def events(chat: Chat, request: dict[str, Any], task_id: str, context: str) -> AsyncIterator[str]:
    """Yield the task, an artifact update for each chunk, and the final status as server-sent events."""

    def event(what: dict[str, Any]) -> str:
        return f"data: {json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': what}, separators=(',', ':'))}\n\n"

    ids = {"taskId": task_id, "contextId": context}
    yield event({"task": {"id": task_id, "contextId": context, "status": {"state": "TASK_STATE_SUBMITTED"}}})
    text = ""
    async for word in chat.words(request["params"]["message"]["parts"][0]["text"], context):
        artifact = {"artifactId": "stream", "parts": [{"text": word}]}
        yield event({"artifactUpdate": {**ids, "artifact": artifact, "append": bool(text)}})
        text += word
    yield event({"statusUpdate": {**ids, "status": completed(text)}})


def completed(text: str) -> dict[str, Any]:
    """Return the final status with the text."""
    message = {"messageId": str(uuid4()), "role": "ROLE_AGENT", "parts": [{"text": text}]}
    return {"state": "TASK_STATE_COMPLETED", "message": message}


async def answer(chat: Chat, http: Request) -> Response:
    """Answer SendMessage and SendStreamingMessage."""
    request = await http.json()
    message = request["params"]["message"]
    task_id, context = str(uuid4()), message.get("contextId") or str(uuid4())
    if request["method"] == "SendStreamingMessage":
        return StreamingResponse(events(chat, request, task_id, context), media_type="text/event-stream")
    text = "".join([word async for word in chat.words(message["parts"][0]["text"], context)])
    task = {"id": task_id, "contextId": context, "status": completed(text)}
    return JSONResponse({"jsonrpc": "2.0", "id": request["id"], "result": {"task": task}})


def routes(chat: Chat) -> list[Route]:
    """Return the routes of the app with this graph."""
    return [Route("/", partial(answer, chat), methods=["POST"])]


app = Starlette(routes=routes(in_memory()))
