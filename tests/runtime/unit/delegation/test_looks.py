"""Graphs that wait for a remote agent without a process, against a remote agent on a real socket."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Send, interrupt

from aion.langgraph.scripted import ScriptedChatModel
from aion.shared.remote import RemoteAgentError, call_agent, call_agents
from aion_core import log
from aion_core.protocol.types import Task
from tests.runtime.unit.delegation.remote_servers import sdk_app
from tests.support.agents.remote import NOTES
from tests.support.faulty_table import TableCall, TableFaults
from tests.support.held_remote import Remote, held_remote
from tests.support.listening import free_port, listening
from tests.support.waiting import Conversation, suspend_after, text_of

DAY = 24 * 3600.0


@pytest.fixture(scope="module", params=[True, pytest.param(False, marks=pytest.mark.deep)], ids=["streams", "polls"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with held_remote(tmp_path_factory.mktemp("remote"), streaming=request.param) as served:
        yield served


@pytest.fixture
def remote(server: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    with server.of_test(tmp_path, monkeypatch) as remote:
        yield remote


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspend turns after a tenth of a second."""
    suspend_after(0.1, monkeypatch)


def node(code: Callable[[Conversation], Awaitable[str]]) -> Callable[[Conversation], Any]:
    """Return a graph whose only node runs the code and says what it returns."""

    def build(conversation: Conversation) -> Any:
        async def run(state: MessagesState) -> Any:
            return {"messages": [AIMessage(await code(conversation))]}

        return StateGraph(MessagesState).add_node("node", run).add_edge(START, "node").compile()

    return build


class Requests(TableFaults):
    """Counter of a table's requests."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()

    def before(self, call: TableCall) -> None:
        self.made[call.operation] += 1


def calling(remote: Remote, *names: str) -> Callable[[Conversation], Any]:
    async def code(conversation: Conversation) -> str:
        conversation.note("begun")
        return " ".join([(await call_agent(remote.url, remote.hold(name))).text for name in names])

    return node(code)


async def test_delegated_job_of_forty_minutes_costs_little(remote: Remote) -> None:
    conversation, requests = Conversation(calling(remote, "job")), Requests()
    conversation.made.store.table.faults = requests  # type: ignore[attr-defined]
    task = await conversation.send()
    assert text_of(task) == f"Waiting for {remote.url}."
    task = await conversation.passes(task, 2400, step=5)
    assert conversation.notes == [("begun", 0.0)], "the graph has not run"
    remote.end("job")
    ended = conversation.clock.now()
    while len(conversation.notes) == 1:
        conversation.clock.move(1)
        await conversation.idle()
    assert (conversation.clock.now() - ended).total_seconds() <= 300
    assert text_of(await conversation.rests(task.id)) == "Held."
    assert remote.requests["/"] <= 20
    assert requests.made.total() <= 60
    assert len(conversation.woken) <= 20


async def test_calls_of_one_node_each_wait(remote: Remote) -> None:
    conversation = Conversation(calling(remote, "one", "two"))
    task = await conversation.passes(await conversation.send(), 10, step=1)
    remote.end("one")
    task = await conversation.passes(task, 10, step=1)
    assert remote.heard() == ["one", "two"]
    assert text_of(task).startswith("Waiting for")
    remote.end("two")
    task = await conversation.passes(task, 20, step=1)
    assert text_of(task) == "Held. Held."
    assert remote.heard() == ["one", "two"], "each task began once"


async def test_calls_at_once_wait_together(remote: Remote) -> None:
    async def code(conversation: Conversation) -> str:
        answers = await call_agents([(remote.url, remote.hold(name)) for name in ("one", "two")])
        return " ".join(answer.text for answer in answers)

    conversation = Conversation(node(code))
    task = await conversation.send()
    assert sorted(remote.heard()) == ["one", "two"]
    remote.end("two")
    task = await conversation.passes(task, 30, step=1)
    remote.end("one")
    task = await conversation.passes(task, 60, step=1)
    assert text_of(task) == "Held. Held."
    assert sorted(remote.heard()) == ["one", "two"]


async def test_branches_wait_for_their_own_answers(remote: Remote) -> None:
    def build(conversation: Conversation) -> Any:
        async def calls(state: Any) -> Any:
            answer = await call_agent(remote.url, remote.hold(state["name"]))
            return {"messages": [AIMessage(f"{state['name']}: {answer.text}")]}

        async def joins(state: MessagesState) -> Any:
            return {"messages": [AIMessage(", ".join(sorted(str(each.text) for each in state["messages"][1:])))]}

        graph = StateGraph(MessagesState).add_node("calls", calls).add_node("joins", joins)
        graph.add_conditional_edges(START, lambda state: [Send("calls", {"name": name}) for name in ("a", "b")])
        return graph.add_edge("calls", "joins").compile()

    conversation = Conversation(build)
    task = await conversation.passes(await conversation.send(), 5, step=1)
    remote.end("b")
    task = await conversation.passes(task, 10, step=1)
    assert text_of(task).startswith("Waiting for")
    remote.end("a")
    task = await conversation.passes(task, 30, step=1)
    assert text_of(task) == "a: Held., b: Held."


ORDERS = [(first, second, place) for first in (True, False) for second in (True, False) for place in (0, 1)]


@pytest.mark.parametrize(("first", "second", "place"), ORDERS)
async def test_interrupts_around_calls_get_their_own_answers(
    remote: Remote, first: bool, second: bool, place: int
) -> None:
    """Two calls, each slow or quick, with the author's interrupt before and after both, and between them."""

    async def code(conversation: Conversation) -> str:
        said = [interrupt("Before?")] if place == 0 else []
        said.append((await call_agent(remote.url, remote.hold("one") if first else "say one")).text)
        said.append(interrupt("Between?"))
        said.append((await call_agent(remote.url, remote.hold("two") if second else "say two")).text)
        return " ".join([*said, *([interrupt("After?")] if place == 1 else [])])

    async def until_asked(task: Task) -> Task:
        for name in {"one", "two"} & {*remote.heard()}:
            remote.end(name)
        return await conversation.passes(task, 30, step=5)

    conversation = Conversation(node(code))
    task = await conversation.send()
    for question, answer in [
        *([("Before?", "red")] if place == 0 else []),
        ("Between?", "green"),
        *([("After?", "blue")] if place == 1 else []),
    ]:
        if text_of(task) != question:
            assert text_of(task).startswith("Waiting for")
            task = await until_asked(task)
        assert text_of(task) == question
        task = await conversation.answers(task, answer)
    if text_of(task).startswith("Waiting for"):
        task = await until_asked(task)
    calls = ["Held." if first else "one!", "Held." if second else "two!"]
    before, after = (["red"] if place == 0 else []), (["blue"] if place == 1 else [])
    assert text_of(task) == " ".join([*before, calls[0], "green", calls[1], *after])


def tool_calls(remote: Remote, names: list[str]) -> list[Any]:
    return [{"name": "ask", "args": {"text": remote.hold(name)}, "id": f"call-{name}"} for name in names]


def asking_tool(remote: Remote) -> Any:
    @tool
    async def ask(text: str) -> str:
        """Ask the remote agent."""
        return f"{text[-3:]} {(await call_agent(remote.url, text)).text}"

    return ask


def results_of(messages: list[Any]) -> str:
    return ", ".join(each.text for each in messages if isinstance(each, ToolMessage))


def with_tool_node(remote: Remote, names: list[str]) -> Callable[[Conversation], Any]:
    def build(conversation: Conversation) -> Any:
        async def model(state: MessagesState) -> Any:
            results = results_of(state["messages"])
            return {
                "messages": [AIMessage(results) if results else AIMessage("", tool_calls=tool_calls(remote, names))]
            }

        graph = StateGraph(MessagesState).add_node("model", model).add_node("tools", ToolNode([asking_tool(remote)]))
        graph.add_edge(START, "model").add_edge("tools", "model")
        graph.add_conditional_edges(
            "model", lambda state: "tools" if getattr(state["messages"][-1], "tool_calls", None) else "__end__"
        )
        return graph.compile()

    return build


def with_created_agent(remote: Remote, names: list[str]) -> Callable[[Conversation], Any]:
    class Asking(ScriptedChatModel):
        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
            results = results_of(messages)
            said = AIMessage(results) if results else AIMessage("", tool_calls=tool_calls(remote, names))
            return ChatResult(generations=[ChatGeneration(message=said)])

    return lambda conversation: create_agent(Asking(), [asking_tool(remote)])


@pytest.mark.parametrize("names", [["one"], ["one", "two"]], ids=["one call", "two calls"])
@pytest.mark.parametrize("build", [with_tool_node, with_created_agent])
async def test_tool_calls_of_one_message_get_their_own_results(
    remote: Remote, build: Callable[[Remote, list[str]], Callable[[Conversation], Any]], names: list[str]
) -> None:
    conversation = Conversation(build(remote, names))
    task = await conversation.send()
    assert text_of(task).startswith("Waiting for")
    assert sorted(remote.heard()) == names
    for name in reversed(names):
        remote.end(name)
        task = await conversation.passes(task, 30, step=5)
    task = await conversation.passes(task, 60, step=5)
    assert text_of(task) == ", ".join(f"{name} Held." for name in names)
    assert sorted(remote.heard()) == names, "each task began once"


async def test_question_of_awaited_agent_reaches_client(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    async def code(conversation: Conversation) -> str:
        return (await call_agent(remote.url, f"{remote.hold('job')} ask")).text

    conversation = Conversation(node(code))
    task = await conversation.passes(await conversation.send(), 10, step=5)
    remote.end("job")
    task = await conversation.passes(task, 30, step=5)
    assert text_of(task) == "Which?"
    suspend_after(60.0, monkeypatch)
    task = await conversation.answers(task, "red")
    assert text_of(task) == "Held for red."


async def test_cancel_reaches_awaited_agent(remote: Remote) -> None:
    conversation = Conversation(calling(remote, "job"))
    task = await conversation.send()
    await conversation.made.service.cancel(conversation.call, task.id)
    calls = await conversation.made.store.remote_calls.to_cancel(conversation.made.store.task_keys()[0])  # type: ignore[attr-defined]
    assert [call.call.remote for call in calls] == [remote.url]
    task = await conversation.passes(task, 600, step=60)
    assert text_of(task) == "Canceled."
    assert len(conversation.notes) == 1


async def test_blocking_client_gets_answer_without_suspension(remote: Remote) -> None:
    conversation = Conversation(calling(remote, "job"))
    sending = asyncio.create_task(conversation.send(return_immediately=False))
    async with asyncio.timeout(60):
        while not remote.requests["/"]:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)  # longer than a call may keep a process that nobody holds
    remote.end("job")
    assert text_of(await sending) == "Held."
    assert len(conversation.notes) == 1


async def test_forgotten_task_fails_with_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log.install()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    remote = Remote(url, tmp_path, Counter())
    conversation = Conversation(calling(remote, "job"))
    with listening(sdk_app(url), port=port):
        task = await conversation.send()
        assert text_of(task).startswith("Waiting for")
    task = await conversation.passes(task, 60, step=5)
    assert text_of(task).startswith("Waiting for"), "it may only restart"
    missed = [each for each in caplog.records if "can't be reached for a look" in each.getMessage()]
    assert {(each.levelname, log.labels_of(each)["task_id"]) for each in missed} == {("WARNING", task.id)}, (
        "for `aion why`"
    )
    with listening(sdk_app(url), port=port):
        task = await conversation.passes(task, 60, step=5)
    assert text_of(task).endswith("no longer knows the task that it had begun.")


async def test_agent_that_does_not_answer_within_day_fails_call(remote: Remote) -> None:
    async def code(conversation: Conversation) -> str:
        try:
            return (await call_agent(remote.url, remote.hold("job"))).text
        except RemoteAgentError as error:
            return str(error)

    conversation = Conversation(node(code))
    task = await conversation.passes(await conversation.send(), DAY - 600, step=3600)
    assert text_of(task).startswith("Waiting for")
    task = await conversation.passes(task, 1200, step=300)
    assert text_of(task) == f"The agent {remote.url} has not answered within 24 hours."
