"""Answers after two tool calls, with the scripted model and with OpenAI's client."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState
from langchain.chat_models.base import _BUILTIN_PROVIDERS

from aion_tools.testing import serve
from tests.support.server import aion_dev, serving

HERE = Path(__file__).parent
QUESTION = "How much is 250 USD in EUR?"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (QUESTION, "250 USD in EUR: 200"),
        ("And 10 GBP in XXX?", "10 GBP in XXX: There is no rate for XXX."),
        ("Hello", "Ask me, for example: How much is 250 USD in EUR?"),
    ],
)
async def test_agent_answers_questions_about_exchange_rates(question: str, answer: str) -> None:
    async with serve(HERE / "aion.yaml") as client:
        reply = await client.ask(question)
    assert (reply.state, reply.text) == ("completed", answer)


async def test_environment_variable_selects_real_model() -> None:
    """Run `aion dev` with OpenAI's client and a local server that imitates OpenAI's API."""
    with Provider() as provider:
        url = f"http://127.0.0.1:{provider.server_port}/v1"
        environ = {"MODEL": "openai:gpt-5-mini", "OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": url}
        with serving(aion_dev(str(HERE), "--no-reload", "--store", "memory"), **environ) as server:
            async with httpx.AsyncClient(timeout=60) as http:
                card = await A2ACardResolver(http, server.url).get_agent_card()
                client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
                message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=QUESTION)])
                events = [event async for event in client.send_message(SendMessageRequest(message=message))]
    status = events[-1].status_update.status
    assert (status.state, status.message.parts[0].text) == (TaskState.TASK_STATE_COMPLETED, "You get 200 euros.")
    streamed = [event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")]
    assert [text for text in streamed if text] == ["You get ", "200 ", "euros."]
    first, second = provider.requests
    assert first["model"] == "gpt-5-mini"
    assert [each["function"]["name"] for each in first["tools"]] == ["exchange_rate", "multiply"]
    assert [each["content"] for each in second["messages"] if each["role"] == "tool"] == ["0.8"]


def test_readme_names_correct_package_for_each_model_provider() -> None:
    rows = [line.split("|")[1:-1] for line in (HERE / "README.md").read_text().splitlines() if "`langchain-" in line]
    assert len(rows) == 3
    for _, package, model, _ in rows:
        provider_name = model.strip(" `").partition(":")[0]
        module = _BUILTIN_PROVIDERS[provider_name][0]
        assert package.strip(" `") == module.partition(".")[0].replace("_", "-")


class Provider(ThreadingHTTPServer):
    """Server that imitates OpenAI's streaming API: it calls the tool `exchange_rate`, then answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ProviderHandler)
        self.requests: list[dict[str, Any]] = []

    def __enter__(self) -> "Provider":
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class ProviderHandler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        arguments = json.dumps({"base": "USD", "target": "EUR"})
        function = {"name": "exchange_rate", "arguments": arguments}
        deltas: list[dict[str, Any]] = (
            [{"content": text} for text in ("You get ", "200 ", "euros.")]
            if any(message["role"] == "tool" for message in request["messages"])
            else [{"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": function}]}]
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number, delta in enumerate([*deltas, {}]):
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if number == len(deltas) else None}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args: Any) -> None:
        pass
