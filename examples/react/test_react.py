"""Answers after two tool calls, with the scripted model and with OpenAI's client."""

from pathlib import Path

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState
from langchain.chat_models.base import _BUILTIN_PROVIDERS

from aion_tools.testing import serve
from tests.support.openai_server import OpenAIServer
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
    words = ["You get ", "200 ", "euros."]
    command = aion_dev(str(HERE), "--no-reload", "--store", "memory")
    with (
        OpenAIServer("exchange_rate", {"base": "USD", "target": "EUR"}, words) as provider,
        serving(command, **provider.environment) as server,
    ):
        async with httpx.AsyncClient(timeout=60) as http:
            card = await A2ACardResolver(http, server.url).get_agent_card()
            client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
            message = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=QUESTION)])
            events = [event async for event in client.send_message(SendMessageRequest(message=message))]
    status = events[-1].status_update.status
    assert (status.state, status.message.parts[0].text) == (TaskState.TASK_STATE_COMPLETED, "You get 200 euros.")
    streamed = [event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")]
    assert [text for text in streamed if text] == words
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
