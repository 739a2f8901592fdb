"""Chat models of real providers' packages, and a local stand-in of the providers' HTTP APIs.

The stand-in answers a request for JSON with `{"team": "sales", "note": "soon"}`, or by a call of the one tool that it must
call, and any other request with the words of `TEXT`. It streams an answer word by word if the request asks for a stream.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROUTE = {"team": "sales", "note": "soon"}
ROUTED = json.dumps(ROUTE)
TEXT = ("Hello ", "there.")

KEY = SecretStr("k")


def words_for(wants_json: bool) -> tuple[str, ...]:
    """Return the words of an answer: pieces of the JSON, or of the text."""
    return (ROUTED[:9], ROUTED[9:]) if wants_json else TEXT


def sse(events: Iterator[tuple[str, Any]], end: str = "") -> Response:
    """Return events as Server-Sent Events; an event with a name has a line for it."""
    lines = (f"{f'event: {name}{chr(10)}' if name else ''}data: {json.dumps(data)}\n\n" for name, data in events)
    return StreamingResponse(iter([*lines, end]), media_type="text/event-stream")


# ── OpenAI: chat completions, and responses ───────────────────────────────────────────────────────────────────────────


async def openai_chat(request: Request) -> Response:
    body = await request.json()
    call = body["tools"][0]["function"]["name"] if isinstance(body.get("tool_choice"), dict) else ""
    words = () if call else words_for(body.get("response_format", {}).get("type", "text") != "text")
    calls = (
        [{"index": 0, "id": "c-1", "type": "function", "function": {"name": call, "arguments": ROUTED}}] if call else []
    )
    base = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
    if not body.get("stream"):
        message = {"role": "assistant", "content": "".join(words) or None, "refusal": None, "tool_calls": calls or None}
        choice = {"index": 0, "finish_reason": "tool_calls" if call else "stop", "message": message}
        return JSONResponse({**base, "object": "chat.completion", "choices": [choice]})

    def chunks() -> Iterator[tuple[str, Any]]:
        deltas: list[Any] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
        for delta in [*deltas, *([{"tool_calls": calls}] if call else [])]:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            yield "", {**base, "object": "chat.completion.chunk", "choices": [choice]}
        last = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
        yield "", {**base, "object": "chat.completion.chunk", "choices": [last]}

    return sse(chunks(), "data: [DONE]\n\n")


async def openai_responses(request: Request) -> Response:
    body = await request.json()
    words = words_for(body.get("text", {}).get("format", {}).get("type", "text") != "text")
    content = [{"type": "output_text", "text": "".join(words), "annotations": []}]
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}
    whole = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "status": "completed",
        "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "text": body.get("text"),
    }  # fmt: skip
    if not body.get("stream"):
        return JSONResponse(whole)

    def events() -> Iterator[tuple[str, Any]]:
        at = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
        told: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {
                "type": "response.content_part.added",
                **at,
                "part": {"type": "output_text", "text": "", "annotations": []},
            },
            *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in words),
            {"type": "response.output_text.done", **at, "text": "".join(words), "logprobs": []},
            {"type": "response.content_part.done", **at, "part": content[0]},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        for number, event in enumerate(told):
            yield str(event["type"]), {**event, "sequence_number": number}

    return sse(events())


# ── Anthropic ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def anthropic(request: Request) -> Response:
    body = await request.json()
    call = body.get("tool_choice", {}).get("name", "")
    words = () if call else words_for("format" in body.get("output_config", {}))
    used = {"type": "tool_use", "id": "toolu_1", "name": call, "input": ROUTE}
    content = [used] if call else [{"type": "text", "text": "".join(words)}]
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": content,
        "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    if not body.get("stream"):
        return JSONResponse(message)

    def events() -> Iterator[tuple[str, Any]]:
        deltas: list[Any] = [{"type": "input_json_delta", "partial_json": ROUTED}] if call else []
        deltas += [{"type": "text_delta", "text": word} for word in words]
        block = {**used, "input": {}} if call else {"type": "text", "text": ""}
        told: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]
        for event in told:
            yield str(event["type"]), event

    return sse(events())


# ── Gemini ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def gemini(request: Request) -> Response:
    body = await request.json()
    given = body.get("generationConfig", {})
    allowed = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("allowedFunctionNames", [])
    words = () if allowed else words_for(given.get("responseMimeType", "text/plain") != "text/plain")
    parts: list[Any] = [{"functionCall": {"name": allowed[0], "args": ROUTE}}] if allowed else []
    parts += [{"text": word} for word in words]

    def answer(parts: list[Any], **candidate: Any) -> dict[str, Any]:
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, **candidate}],
            "usageMetadata": usage,
            "modelVersion": "gemini",
        }

    if "streamGenerateContent" in request.url.path:
        return sse(
            iter([*(("", answer([part])) for part in parts[:-1]), ("", answer(parts[-1:], finishReason="STOP"))])
        )
    return JSONResponse(answer(parts, finishReason="STOP"))


# ── Ollama ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def ollama(request: Request) -> Response:
    body = await request.json()
    tools = [each["function"]["name"] for each in body.get("tools") or []]
    words = () if tools else words_for(bool(body.get("format")))
    calls = [{"function": {"name": tools[0], "arguments": ROUTE}}] if tools else []
    base = {"model": body["model"], "created_at": "2026-01-01T00:00:00Z"}
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": word} for word in words]
    messages += [{"role": "assistant", "content": "", "tool_calls": calls}] if calls else []
    done = {**base, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    lines = [*({**base, "message": message, "done": False} for message in messages), done]
    return StreamingResponse(iter([f"{json.dumps(line)}\n" for line in lines]), media_type="application/x-ndjson")


class Closing:
    """ASGI middleware that closes each connection, because the packages keep their clients for other event loops."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, closing)


APIS = Starlette(
    middleware=[Middleware(Closing)],
    routes=[
        Route("/openai/chat/completions", openai_chat, methods=["POST"]),
        Route("/openai/responses", openai_responses, methods=["POST"]),
        Route("/anthropic/v1/messages", anthropic, methods=["POST"]),
        Route("/gemini/{path:path}", gemini, methods=["POST"]),
        Route("/ollama/api/chat", ollama, methods=["POST"]),
    ],
)
"""ASGI app with the APIs of all providers, each below a path of its own."""


# ── Models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_openai(url: str, **options: Any) -> BaseChatModel:
    # Import each package late, because its import takes about a second.
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5-mini", base_url=f"{url}/openai", api_key=KEY, max_retries=0, **options)


def of_openai_responses(url: str, **options: Any) -> BaseChatModel:
    return of_openai(url, use_responses_api=True, **options)


def of_anthropic(url: str, **options: Any) -> BaseChatModel:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model_name="claude-test", base_url=f"{url}/anthropic", api_key=KEY, max_retries=0, **options)


def of_gemini(url: str, **options: Any) -> BaseChatModel:
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(
        model="gemini-3-flash", base_url=f"{url}/gemini", google_api_key=KEY, max_retries=1, **options
    )


def of_ollama(url: str, **options: Any) -> BaseChatModel:
    from langchain_ollama import ChatOllama

    return ChatOllama(model="llama3", base_url=f"{url}/ollama", **options)


Provider = Callable[..., BaseChatModel]

BOUND: dict[str, tuple[Provider, dict[str, Any]]] = {
    "openai": (of_openai, {"response_format": {"type": "json_object"}}),
    "openai_responses": (of_openai_responses, {"text": {"format": {"type": "json_object"}}}),
    "anthropic": (of_anthropic, {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}),
    "gemini": (of_gemini, {"response_mime_type": "application/json"}),
    "ollama": (of_ollama, {"format": "json"}),
}
"""Each provider's model, and the parameters with which its API is asked for JSON without LangChain's help."""

METHODS: dict[str, tuple[str, ...]] = {
    "openai": ("json_schema", "json_mode", "function_calling"),
    "openai_responses": ("json_schema",),
    "anthropic": ("json_schema", "function_calling"),
    "gemini": ("json_schema", "function_calling"),
    "ollama": ("json_schema", "json_mode", "function_calling"),
}
"""Methods of `with_structured_output` of each provider's package."""
