"""`aion_tools.testing`, as used in the tests of a project."""

import os
from pathlib import Path

import pytest
from a2a.types import GetTaskRequest, ListTasksRequest, Part
from a2a.utils.errors import InvalidParamsError

from aion_core.errors import ConfigurationError
from aion_tools.testing import serve

AGENTS = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt


def one(node):
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")


def counts(state):
    said = [message.text for message in state["messages"] if message.type == "human"]
    return {"messages": [AIMessage(f"{len(said)}: {said[-1]}")]}


def fails(state):
    raise ValueError("the tide is out")


async def streams(state):
    model = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    return {"messages": [await model.ainvoke(state["messages"])]}


def books(state):
    return {"messages": [AIMessage("Booked for " + interrupt("Which day?") + ".")]}


SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}, "seats": {"type": "integer"}}}


def plans(state):
    ask = {"prompt": "Where?", "response_schema": SCHEMA}
    return {"messages": [AIMessage(f"{interrupt(ask)}, {interrupt({'prompt': 'How?', 'options': ['bus']})}")]}


counter, broken, speaker, asker, planner = one(counts), one(fails), one(streams), one(books), one(plans)
"""
YAML = """
aion:
  agents:
    counter: {path: "agents.py:counter"}
    broken: {path: "agents.py:broken"}
    speaker: {path: "agents.py:speaker"}
    asker: {path: "agents.py:asker"}
    planner: {path: "agents.py:planner"}
    brief: {path: "agents.py:counter", reply: message}
    both: {path: "agents.py:speaker", answer: both}
    unmade: {path: "unmade.py"}
    strict: {path: "agents.py:counter", capabilities: {extensions: [{uri: "https://x.y/z", required: true}]}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "unmade.py").write_text("import no_such_module\n")
    (tmp_path / "aion.yaml").write_text(YAML)
    return tmp_path / "aion.yaml"


async def test_ask_returns_replies_of_conversation(config: Path) -> None:
    async with serve(config) as client:
        first = await client.ask("hello")
        second = await client.ask("see", parts=[Part(text=" this")], context_id=first.context_id)
        other = await client.ask("new")
        assert (first.state, first.text) == ("completed", "1: hello")
        assert (second.text, other.text) == ("2: see this", "1: new")
        with pytest.raises(InvalidParamsError, match="parts is empty"):
            await client.ask()
        assert first.task is not None
        assert await client.a2a.get_task(GetTaskRequest(id=first.task.id)) == first.task
        card = (await client.http.get("/.well-known/agent-card.json")).json()
        assert card["name"] == client.card.name == "counter"


async def test_separately_served_test_agents_share_no_state(config: Path) -> None:
    async with serve(config) as client:
        first = await client.ask("hello")
    async with serve(config) as client:
        assert (await client.ask("again", context_id=first.context_id)).text == "1: again"
        assert len((await client.a2a.list_tasks(ListTasksRequest())).tasks) == 1


@pytest.mark.parametrize(("agent", "reason"), [("broken", "the tide is out"), ("unmade", "no_such_module")])
async def test_reply_of_failed_turn_has_reason(config: Path, agent: str, reason: str) -> None:
    async with serve(config, agent=agent) as client:
        reply = await client.ask("hello")
    assert reply.state == "failed"
    assert reason in reply.text


async def test_serve_of_unknown_agent_or_file_is_refused(config: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no agent 'counters'\. Its agents are asker, both, "):
        async with serve(config, agent="counters"):
            raise AssertionError("served")
    with pytest.raises(ConfigurationError, match=r"missing\.yaml"):
        async with serve(config.with_name("missing.yaml")):
            raise AssertionError("served")


async def test_ask_names_required_extensions_of_card(config: Path) -> None:
    async with serve(config, agent="strict") as client:
        assert (await client.ask("hello")).text == "1: hello"


@pytest.mark.parametrize("agent", ["speaker", "both"])
async def test_test_client_returns_streamed_chunks_of_reply(config: Path, agent: str) -> None:
    async with serve(config, agent=agent) as client:
        reply = await client.ask("speak")
    assert reply.text == "one two three"
    assert "".join(reply.chunks) == reply.text
    assert len(reply.chunks) == 5


async def test_ask_with_task_id_answers_interrupt(config: Path) -> None:
    async with serve(config, agent="asker") as client:
        question = await client.ask("Book a table")
        assert question.task is not None
        assert (question.state, question.text) == ("input-required", "Which day?")
        answer = await client.ask("Tuesday", task_id=question.task.id, context_id=question.context_id)
    assert (answer.state, answer.text) == ("completed", "Booked for Tuesday.")


async def test_ask_returns_reply_if_agent_answers_without_task(config: Path) -> None:
    async with serve(config, agent="brief") as client:
        reply = await client.ask("hello")
    assert (reply.state, reply.text, reply.task) == ("completed", "1: hello", None)
    assert reply.context_id


async def test_served_test_agent_ignores_process_environment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_STORE", "dynamodb")
    monkeypatch.setenv("AION_CONFIG", "/nonexistent.yaml")
    async with serve(config) as client:
        assert (await client.ask("hello")).text == "1: hello"


async def test_environment_variables_of_aion_yaml_are_set_only_while_serving(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` sets the variables of aion.yaml, but reads none of its secrets from AWS."""
    monkeypatch.delenv("MODEL", raising=False)
    declared = "aion:\n  environment: {MODEL: scripted}\n  secrets: {MODEL_KEY: no-such-secret}\n"
    config.write_text(YAML.replace("aion:\n", declared))
    says = "f\"{os.environ['MODEL']}: {os.environ.get('MODEL_KEY')}\""
    agents = AGENTS.replace('f"{len(said)}: {said[-1]}"', says)
    (config.parent / "agents.py").write_text(f"import os\n{agents}")
    async with serve(config) as client:
        assert (await client.ask("hello")).text == "scripted: None"
    assert "MODEL" not in os.environ


async def test_reply_has_questions_with_form_of_answer(config: Path) -> None:
    async with serve(config, agent="planner") as client:
        asked = await client.ask("Plan it.")
        assert asked.task is not None
        (where,) = asked.questions
        assert (where.text, where.fields(), where.required()) == ("Where?", ["town", "seats"], [])
        again = await client.ask("Oslo", task_id=asked.task.id)
        assert again.questions == asked.questions
        then = await client.ask('{"town": "Oslo", "seats": 2}', task_id=asked.task.id)
        assert [each.choices for each in then.questions] == [["bus"]]
        done = await client.ask("bus", task_id=asked.task.id)
    assert (done.text, done.questions) == ("{'town': 'Oslo', 'seats': 2}, bus", [])
