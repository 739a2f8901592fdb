"""Tools of ADK agents that sleep or call a remote agent: no process runs meanwhile, and each tool gets its own result."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps import App, ResumabilityConfig
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types as genai

from aion.shared.remote import call_agent, call_agents
from aion.shared.sleeping import sleep
from aion_core.delegation.remotes import Remotes
from aion_core.engine.runner import renewal
from aion_core.protocol.types import Task
from tests.runtime.unit.agents.adk.test_resumption import answering, transferring_agent
from tests.support.adk import CrashingSessions, DecidingLlm, call, content, scripted_model, served, texts
from tests.support.clock import settle
from tests.support.held_remote import Remote, held_remote
from tests.support.rows import places, taking_turns
from tests.support.traces import KeptTraces
from tests.support.waiting import Conversation, suspend_after, text_of

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    with held_remote(tmp_path_factory.mktemp("remote")) as made:
        yield made


@pytest.fixture
def remote(server: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Remote]:
    with server.of_test(tmp_path, monkeypatch) as remote:
        yield remote


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspend turns after a tenth of a second."""
    suspend_after(0.1, monkeypatch)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suspend no turn whose remote agent answers, however slow the machine is."""
    suspend_after(60.0, monkeypatch)


def caller(calls: list[Any], *tools: Any, name: str = "root", **options: Any) -> LlmAgent:
    """Return an agent whose model makes these calls in one message, and then says their results."""

    def decide(seen: list[str]) -> list[Any]:
        results = [line.partition(": ")[2] for line in seen if " -> " in line]
        return ["; ".join(results)] if results else calls

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=list(tools), **options)


def results(**by_tool: Any) -> str:
    return "; ".join(f"{name} -> {result}" for name, result in by_tool.items())


class Talk(Conversation):
    """Conversation with an ADK agent, and its stored session."""

    def __init__(
        self,
        build: Callable[["Talk"], Any],
        sessions: CrashingSessions | None = None,
        *,
        remotes: Remotes | None = None,
        **options: Any,
    ) -> None:
        self.sessions = sessions or CrashingSessions()
        super().__init__(lambda made: served(build(made), self.sessions, remotes=remotes), **options)  # type: ignore[arg-type]

    def events(self) -> list[Any]:
        return self.sessions.stored()

    def history(self) -> list[str]:
        """Return the tool calls and responses of the stored session, in order."""
        said = []
        for event in self.events():
            said += [f"{each.name}()" for each in event.get_function_calls()]
            said += [f"-> {each.name}" for each in event.get_function_responses()]
        return said


async def test_sleeping_tool_is_suspended_and_resumes_at_time(caplog: pytest.LogCaptureFixture) -> None:
    def build(talk: Talk) -> Any:
        async def nap() -> str:
            """Sleep for an hour."""
            talk.note("before")
            await sleep(HOUR)
            talk.note("after")
            return "good morning"

        return caller([call("nap")], nap)

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task) == "Waiting until 2030-01-01 01:00:00 UTC."
    task = await talk.passes(task, 3599)
    assert talk.notes == [("before", 0.0)], "no process has run"
    task = await talk.passes(task, 1)
    assert text_of(task) == results(nap={"result": "good morning"})
    assert talk.notes == [("before", 0.0), ("before", 3600.0), ("after", 3600.0)]
    assert talk.history() == ["nap()", "-> nap"]
    assert talk.made.agent.root.model.calls == 2  # type: ignore[attr-defined]
    assert "no matching function response" not in caplog.text, "ADK makes the call again"


async def test_calling_tool_is_suspended_until_answer(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        async def ask(text: str) -> str:
            """Ask."""
            talk.note("begun")
            return (await call_agent(remote.url, text)).text

        return caller([call("ask", text=remote.hold("job"))], ask)

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task) == f"Waiting for {remote.url}."
    task = await talk.passes(task, 2400, step=30)
    assert talk.notes == [("begun", 0.0)]
    remote.end("job")
    task = await talk.passes(task, 300, step=30)
    assert text_of(task) == results(ask={"result": "Held."})
    assert remote.heard() == ["job"]
    assert talk.history() == ["ask()", "-> ask"]


def asking(remote: Remote) -> Any:
    async def ask(text: str) -> str:
        """Ask the remote agent."""
        return f"{text[-3:]} {(await call_agent(remote.url, text)).text}"

    return ask


async def test_calls_of_one_message_get_their_own_results(remote: Remote) -> None:
    calls = [call("ask", f"call-{name}", text=remote.hold(name)) for name in ("one", "two")]
    talk = Talk(lambda talk: caller(calls, asking(remote)))
    task = await talk.send()
    assert sorted(remote.heard()) == ["one", "two"]
    remote.end("two")
    task = await talk.passes(task, 30, step=5)
    assert text_of(task).startswith("Waiting for"), text_of(task)
    remote.end("one")
    task = await talk.passes(task, 60, step=5)
    assert text_of(task) == "ask -> {'result': 'one Held.'}; ask -> {'result': 'two Held.'}"
    assert sorted(remote.heard()) == ["one", "two"], "each task began once"
    assert talk.history() == ["ask()", "ask()", "-> ask", "-> ask"]


async def test_several_calls_of_one_tool_wait_together(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        async def ask() -> str:
            """Ask."""
            answers = await call_agents([(remote.url, remote.hold(name)) for name in ("one", "two")])
            first = " ".join(answer.text for answer in answers)
            await sleep(HOUR)
            return f"{first} {(await call_agent(remote.url, remote.hold('three'))).text}"

        return caller([call("ask")], ask)

    talk = Talk(build)
    task = await talk.send()
    for name in ("two", "one"):
        remote.end(name)
        task = await talk.passes(task, 30, step=5)
    assert text_of(task).startswith("Waiting until"), text_of(task)
    task = await talk.passes(task, 3600, step=300)
    remote.end("three")
    task = await talk.passes(task, 60, step=5)
    assert text_of(task) == results(ask={"result": "Held. Held. Held."})
    assert sorted(remote.heard()) == ["one", "three", "two"]


class Files:
    """Tools beside one that waits, which note each of their runs."""

    def __init__(self, talk: Talk, remote: Remote) -> None:
        self._talk = talk

        async def ask(text: str) -> str:
            """Ask the remote agent."""
            talk.note("ask")
            return (await call_agent(remote.url, text)).text

        async def book(tool_context: Any) -> dict[str, Any]:
            """Book."""
            talk.note("book")
            tool_context.state["booked"] = 1
            return {"booked": "a flight"}

        async def fail() -> str:
            """Fail."""
            talk.note("fail")
            raise ValueError("no")

        async def ticket() -> dict[str, Any]:
            """Open a ticket."""
            talk.note("ticket")
            return {"ticket": 7}

        async def silent() -> None:
            """Say nothing yet."""
            talk.note("silent")

        async def nothing() -> dict[str, Any]:
            """Return an empty result."""
            talk.note("nothing")
            return {}

        self.ask, self.book, self.fail, self.ticket, self.silent, self.nothing = (
            ask,
            book,
            fail,
            ticket,
            silent,
            nothing,
        )

        self.both = (book, ask)

    @property
    def runs(self) -> list[str]:
        return sorted(what for what, _ in self._talk.notes)


async def test_tool_beside_waiting_one_runs_once(remote: Remote) -> None:
    seen = []

    def build(talk: Talk) -> Any:
        tools = Files(talk, remote)

        async def after(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> Any:
            seen.append((tool.name, tool_response))
            return {**tool_response, "seen": True} if tool.name == "book" else None

        calls = [call("book"), call("ask", text=remote.hold("job")), call("nothing")]
        return caller(calls, tools.book, tools.ask, tools.nothing, after_tool_callback=after)

    talk = Talk(build)
    task = await talk.passes(await talk.send(), 40, step=5)
    assert text_of(task).startswith("Waiting for")
    assert talk.history() == ["book()", "ask()", "nothing()"], "ADK stores the results of a message together"
    remote.end("job")
    task = await talk.passes(task, 60, step=5)
    assert text_of(task) == results(book={"booked": "a flight", "seen": True}, ask={"result": "Held."}, nothing={})
    assert sorted(what for what, _ in talk.notes) == ["ask", "ask", "book", "nothing"]
    assert seen == [("book", {"booked": "a flight"}), ("nothing", {}), ("ask", "Held.")]
    assert talk.history() == ["book()", "ask()", "nothing()", "-> book", "-> ask", "-> nothing"]
    assert [event.actions.state_delta for event in talk.events() if "booked" in event.actions.state_delta] == [
        {"booked": 1}
    ]


async def test_failing_tool_beside_waiting_one_fails_turn(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        tools = Files(talk, remote)

        async def fails_later() -> str:
            """Fail after the other tool has stopped."""
            await asyncio.sleep(0.3)
            raise ValueError("no")

        return caller([call("ask", text=remote.hold("job")), call("fails_later")], tools.ask, fails_later)

    talk = Talk(build)
    task = await talk.send()
    assert task.status.state == 4, text_of(task)


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_confirmation_beside_waiting_tool_gets_its_answer(remote: Remote, answer: str) -> None:
    def build(talk: Talk) -> Any:
        tools = Files(talk, remote)
        book = FunctionTool(tools.book, require_confirmation=True)
        return caller([call("book"), call("ask", text=remote.hold("job"))], book, tools.ask)

    talk = Talk(build)
    task = await talk.passes(await talk.send(), 10, step=5)
    assert text_of(task).startswith("Waiting for")
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert "May the agent call book" in text_of(task)
    task = await talk.answers(task, answer)
    assert ("'booked': 'a flight'" in text_of(task)) is (answer == "yes"), text_of(task)
    assert "'Held.'" in text_of(task)
    assert sorted(what for what, _ in talk.notes) == ["ask", "ask", *(["book"] if answer == "yes" else [])]


@pytest.mark.parametrize("name", ["ticket", "silent"])
async def test_long_running_tool_beside_waiting_one_gets_its_answer(remote: Remote, name: str) -> None:
    def build(talk: Talk) -> Any:
        tools = Files(talk, remote)
        long_running = LongRunningFunctionTool(getattr(tools, name))
        return caller([call(name), call("ask", text=remote.hold("job"))], long_running, tools.ask)

    talk = Talk(build)
    task = await talk.passes(await talk.send(), 10, step=5)
    assert text_of(task).startswith("Waiting for"), text_of(task)
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert task.status.state == 6, text_of(task)
    assert ("So far" in text_of(task)) is (name == "ticket")
    task = await talk.answers(task, "closed")
    assert f"{name} -> {{'result': 'closed'}}" in text_of(task)
    assert "ask -> {'result': 'Held.'}" in text_of(task)
    assert sorted(what for what, _ in talk.notes) == ["ask", "ask", name]


async def test_long_running_tool_waits_without_process(remote: Remote) -> None:
    """Take what the tool returns as its first result, as ADK does: the client gives the last one."""

    def build(talk: Talk) -> Any:
        return caller([call("ask", text=remote.hold("job"))], LongRunningFunctionTool(Files(talk, remote).ask))

    talk = Talk(build)
    task = await talk.passes(await talk.send(), 40, step=5)
    assert text_of(task).startswith("Waiting for"), text_of(task)
    remote.end("job")
    task = await talk.passes(task, 60, step=5)
    assert 'So far: {"result": "Held."}' in text_of(task)
    task = await talk.answers(task, "fine")
    assert text_of(task) == results(ask={"result": "fine"})
    assert [what for what, _ in talk.notes] == ["ask", "ask"]
    assert remote.heard() == ["job"]


async def test_question_of_awaited_agent_reaches_client(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(talk: Talk) -> Any:
        tools = Files(talk, remote)
        return caller([call("book"), call("ask", text=f"{remote.hold('job')} ask")], tools.book, tools.ask)

    talk = Talk(build)
    task = await talk.passes(await talk.send(), 10, step=5)
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert text_of(task) == "Which?"
    assert task.status.state == 6
    suspend_after(60.0, monkeypatch)
    task = await talk.answers(task, "red")
    assert text_of(task) == results(book={"booked": "a flight"}, ask={"result": "Held for red."})
    assert [what for what, _ in talk.notes].count("book") == 1
    model = talk.made.agent.root.model  # type: ignore[attr-defined]
    assert model.calls == 2


@pytest.mark.usefixtures("patient")
async def test_quick_questions_of_agent_reach_client(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        return caller([call("ask", text="ask twice")], Files(talk, remote).ask)

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task) == "Question 1 twice?"
    task = await talk.answers(task, "red")
    assert text_of(task) == "Question 2 twice?"
    task = await talk.answers(task, "green")
    assert text_of(task) == results(ask={"result": "Heard red and green."})


@pytest.mark.usefixtures("patient")
async def test_authorization_of_agent_reaches_client(remote: Remote) -> None:
    talk = Talk(lambda talk: caller([call("ask", text="authorize")], Files(talk, remote).ask))
    task = await talk.send()
    assert (text_of(task), task.status.state) == ("Log in first.", 8)
    task = await talk.answers(task, "done")
    assert text_of(task) == results(ask={"result": "Authorized."})


@pytest.mark.usefixtures("patient")
async def test_files_of_agent_become_artifacts(remote: Remote) -> None:
    talk = Talk(lambda talk: caller([call("ask", text="file")], Files(talk, remote).ask))
    task = await talk.send()
    assert [artifact.parts[0].filename for artifact in task.artifacts] == ["map.png"]


@pytest.mark.usefixtures("patient")
async def test_failure_of_agent_fails_turn(remote: Remote) -> None:
    talk = Talk(lambda talk: caller([call("ask", text="fail")], Files(talk, remote).ask))
    task = await talk.send()
    assert task.status.state == 4
    assert text_of(task).endswith("has failed: The lake is dry.")


async def test_cancel_reaches_awaited_agent(remote: Remote) -> None:
    talk = Talk(lambda talk: caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask))
    task = await talk.send()
    await talk.made.service.cancel(talk.call, task.id)
    calls = await talk.made.store.remote_calls.to_cancel(talk.made.store.task_keys()[0])  # type: ignore[attr-defined]
    assert [each.call.remote for each in calls] == [remote.url]
    task = await talk.passes(task, 600, step=60)
    assert text_of(task) == "Canceled."
    assert len(talk.notes) == 1
    following = await talk.send("again")
    assert text_of(following) == results(ask={"error": "canceled"})


async def test_result_beside_canceled_wait_stays_known(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        return caller([call("book"), call("ask", text=remote.hold("job"))], *Files(talk, remote).both)

    talk = Talk(build)
    task = await talk.send()
    await talk.made.service.cancel(talk.call, task.id)
    following = await talk.send("again")
    assert text_of(following) == results(book={"booked": "a flight"}, ask={"error": "canceled"})


async def test_tool_that_catches_everything_is_suspended_all_the_same(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        async def ask() -> str:
            """Ask."""
            try:
                return (await call_agent(remote.url, remote.hold("job"))).text
            except Exception:
                return "caught"

        return caller([call("ask")], ask)

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task).startswith("Waiting for")
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert text_of(task) == results(ask={"result": "Held."})


async def waits_in_process(talk: Talk, remote: Remote, *, seconds: float) -> Task:
    """Return the ended task of a turn that has not been suspended for so many seconds of its remote agent's work."""
    sending = asyncio.create_task(talk.send())
    async with asyncio.timeout(60):
        while "job" not in remote.heard():
            await asyncio.sleep(0.01)
    await asyncio.sleep(seconds)
    assert not sending.done()
    remote.end("job")
    return await sending


async def test_agent_that_is_tool_waits_in_process(remote: Remote) -> None:
    """Its model would be called again, because ADK forgets the session of an agent that is a tool."""

    def build(talk: Talk) -> Any:
        inner = caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask, name="inner")
        return caller([call("inner", request="go")], AgentTool(inner))

    talk = Talk(build)
    task = await waits_in_process(talk, remote, seconds=0.3)
    assert "Held." in text_of(task)
    assert len(talk.notes) == 1


async def test_call_outside_of_tool_is_refused_with_reason() -> None:
    reasons = []

    async def before(callback_context: Any) -> None:
        for wait in (call_agent("http://127.0.0.1:9", "hi"), sleep(HOUR)):
            with pytest.raises(RuntimeError) as caught:
                await wait
            reasons.append(str(caught.value))

    talk = Talk(
        lambda talk: LlmAgent(name="root", model=DecidingLlm(decide=lambda seen: ["hi"]), before_agent_callback=before)
    )
    assert text_of(await talk.send()) == "hi"
    assert all("are for the code of its tools" in reason for reason in reasons), reasons


def branches(remote: Remote, *agents: LlmAgent) -> Any:
    return ParallelAgent(name="root", sub_agents=list(agents))


async def test_branches_wait_for_their_own_answers(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        made = [
            caller([call("ask", f"call-{name}", text=remote.hold(name))], asking(remote), name=name)
            for name in ("one", "two")
        ]
        return SequentialAgent(name="root", sub_agents=[branches_of(made), caller([call("x")], name="last")])

    def branches_of(made: list[Any]) -> Any:
        return ParallelAgent(name="both", sub_agents=made)

    talk = Talk(build)
    task = await talk.passes(await talk.send(), 5, step=1)
    remote.end("two")
    task = await talk.passes(task, 20, step=5)
    assert text_of(task).startswith("Waiting for")
    remote.end("one")
    task = await talk.passes(task, 60, step=5)
    said = [text_of(task), *("".join(part.text for part in each.parts) for each in task.history)]
    assert remote.heard().count("one") == remote.heard().count("two") == 1
    assert any("one Held." in text for text in said), said
    assert any("two Held." in text for text in said), said
    for branch in ("one", "two"):
        responses = [event for event in talk.events() if event.author == branch and event.get_function_responses()]
        assert len(responses) == 1


async def test_branch_that_asks_gets_its_answer_while_other_waits(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        tools = Files(talk, remote)
        asks = caller([call("silent")], LongRunningFunctionTool(tools.silent), name="asks")
        waits = caller([call("ask", text=remote.hold("job"))], tools.ask, name="waits")
        return ParallelAgent(name="root", sub_agents=[asks, waits])

    talk = Talk(build)
    task = await talk.send()
    assert task.status.state == 6, text_of(task)
    task = await talk.answers(task, "answer")
    assert text_of(task).startswith("Waiting for"), text_of(task)
    remote.end("job")
    task = await talk.passes(task, 60, step=5)
    assert task.status.state == 3, text_of(task)
    said = [text_of(task), *["".join(part.text for part in each.parts) for each in task.history]]
    assert results(silent={"result": "answer"}) in said, said
    assert results(ask={"result": "Held."}) in said, said
    assert remote.heard() == ["job"]


async def test_loop_waits_in_each_round(remote: Remote) -> None:
    rounds = iter(["one", "two"])

    def decide(seen: list[str]) -> list[Any]:
        if seen[-1].startswith("user: ask -> "):
            return [seen[-1].partition(": ")[2]]
        return [call("ask", text=remote.hold(next(rounds)))]

    def build(talk: Talk) -> Any:
        inner = LlmAgent(name="inner", model=DecidingLlm(decide=decide), tools=[asking(remote)])
        return LoopAgent(name="root", sub_agents=[inner], max_iterations=2)

    talk = Talk(build)
    task = await talk.send()
    for name in ("one", "two"):
        assert text_of(task).startswith("Waiting for"), text_of(task)
        remote.end(name)
        task = await talk.passes(task, 60, step=5)
    assert text_of(task) == results(ask={"result": "two Held."})
    assert remote.heard() == ["one", "two"]


SHAPES: dict[str, Callable[[Talk, Remote], Any]] = {
    "after a transfer": lambda talk, remote: LlmAgent(
        name="root",
        model=transferring_agent("inner").model,
        sub_agents=[caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask, name="inner")],
    ),
    "in a sequence": lambda talk, remote: SequentialAgent(
        name="root",
        sub_agents=[
            caller([call("book"), call("ask", text=remote.hold("job"))], *Files(talk, remote).both, name="inner"),
            answering("writer"),
        ],
    ),
    "in parallel": lambda talk, remote: ParallelAgent(
        name="root",
        sub_agents=[
            answering("other"),
            caller([call("book"), call("ask", text=remote.hold("job"))], *Files(talk, remote).both, name="inner"),
        ],
    ),
    "in a task": lambda talk, remote: delegating(
        caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask, name="inner", mode="task")
    ),
}


def delegating(task: LlmAgent) -> LlmAgent:
    """Return an agent that gives the task to the other agent, and says its result."""

    def decide(seen: list[str]) -> list[Any]:
        results = [line for line in seen if "inner -> " in line]
        return [results[0]] if results else [call("inner", request="go")]

    def work(seen: list[str]) -> list[Any]:
        results = [line for line in seen if "ask -> " in line]
        return [call("finish_task", result=results[0])] if results else [call("ask", text=text)]

    text = task.model.decide([])[0].function_call.args["text"]  # type: ignore[union-attr]
    task.model.decide = work  # type: ignore[union-attr]
    return LlmAgent(name="root", model=DecidingLlm(decide=decide), sub_agents=[task])


@pytest.mark.parametrize("shape", SHAPES)
async def test_tool_waits_in_agents_of_every_shape(remote: Remote, shape: str) -> None:
    talk = Talk(lambda talk: SHAPES[shape](talk, remote))
    task = await talk.passes(await talk.send(), 60, step=20)
    assert text_of(task).startswith("Waiting for"), text_of(task)
    remote.end("job")
    task = await talk.passes(task, 60, step=20)
    assert task.status.state == 3, text_of(task)
    messages = [*task.history, task.status.message]
    said = ["".join(part.text for part in each.parts) for each in messages]
    assert any("'Held.'" in text for text in said), said
    assert remote.heard() == ["job"]
    done = [what for what, _ in talk.notes]
    assert done.count("ask") == 2
    assert done.count("book") <= 1
    history = talk.history()
    assert history.count("ask()") == history.count("-> ask") == 1


async def test_tool_of_workflow_waits_in_process(remote: Remote) -> None:
    """ADK takes a node that has called a tool for one that has ended, when it resumes a workflow."""

    def build(talk: Talk) -> Any:
        inner = caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask, name="inner")
        return Workflow(name="root", edges=[("START", inner)])

    talk = Talk(build)
    assert text_of(await waits_in_process(talk, remote, seconds=0.3)) == results(ask={"result": "Held."})


async def through_losses(talk: Talk, happens: Coroutine[Any, Any, Task]) -> Task:
    """Return the task. After the loss of a process, let the time pass until its lease has ended."""
    happening = asyncio.create_task(happens)
    while not happening.done():
        await settle()
        await asyncio.sleep(0.01)
        if not renewal.beating:
            talk.clock.move(1_001)
    return happening.result()


async def with_losses(
    build: Callable[[Talk, Remote], Any],
    server: Remote,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: bool,
) -> AsyncIterator[tuple[int, Talk, Task, Remote]]:
    """Let the turn wait and end for several of its session's events: the process is lost after or before this event.

    Yield the event's number, and what has become of the turn.
    """
    cuts = [1]
    for place in cuts:
        folder = tmp_path / str(place)
        folder.mkdir()
        sessions = CrashingSessions(place, before=before)
        with server.of_test(folder, monkeypatch) as remote:
            talk = Talk(lambda talk, remote=remote: build(talk, remote), sessions, lease_seconds=10_000)  # type: ignore[misc]
            task = await through_losses(talk, talk.send())
            for _ in range(2):
                remote.end("job")
                task = await through_losses(talk, talk.passes(task, 300, step=300))
            yield place, talk, task, remote
        if place == 1:
            cuts += places(sessions.appends - 1)[1:]


@taking_turns(shape=SHAPES, before=[False, True])
async def test_killed_process_loses_no_wait_and_no_answer(
    shape: str, before: bool, server: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lose the process at events of the session, after or before the event is stored."""
    place = 0
    async for place, talk, task, remote in with_losses(SHAPES[shape], server, tmp_path, monkeypatch, before=before):
        assert task.status.state == 3, (place, text_of(task))
        assert remote.heard() == ["job"], place
        history = talk.history()
        assert history.count("ask()") == history.count("-> ask") == 1, (place, history)
    assert place > 3


async def test_trace_shows_each_run_of_waiting_tool(remote: Remote) -> None:
    kept = KeptTraces()

    def build(talk: Talk) -> Any:
        return caller([call("book"), call("ask", text=remote.hold("job"))], *Files(talk, remote).both)

    talk = Talk(build, tracer=kept.tracer)
    task = await talk.send()
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert text_of(task) == results(book={"booked": "a flight"}, ask={"result": "Held."})
    runs = [[(step.name, bool(step.error)) for step in trace.steps] for trace in await kept.tries()]
    tools = [sorted(each for each in run if each[0] in ("book", "ask")) for run in runs]
    assert tools == [[("ask", False), ("book", False)], [("ask", False)]]
    assert all(step.ms is not None for trace in await kept.tries() for step in trace.steps), "nothing runs any more"


class Wraps(BaseAgent):
    """Custom agent that runs its sub-agent. ADK cannot resume it."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


IN_PROCESS: dict[str, Callable[[LlmAgent], Any]] = {
    "custom agent": lambda agent: Wraps(name="root", sub_agents=[agent]),
    "App that is not resumable": lambda agent: App(
        name="app", root_agent=agent, resumability_config=ResumabilityConfig(is_resumable=False)
    ),
}


@pytest.mark.parametrize("shape", IN_PROCESS)
async def test_agent_that_adk_cannot_resume_waits_in_process(remote: Remote, shape: str) -> None:
    talk = Talk(
        lambda talk: IN_PROCESS[shape](
            caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask, name="inner")
        )
    )
    assert text_of(await waits_in_process(talk, remote, seconds=0.3)) == results(ask={"result": "Held."})
    assert len(talk.notes) == 1


async def test_confirmed_tool_waits_in_process(remote: Remote) -> None:
    talk = Talk(
        lambda talk: caller(
            [call("ask", text=remote.hold("job"))], FunctionTool(Files(talk, remote).ask, require_confirmation=True)
        )
    )
    task = await talk.send()
    answering_it = asyncio.create_task(talk.answers(task, "yes"))
    async with asyncio.timeout(60):
        while "job" not in remote.heard():
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert not answering_it.done()
    remote.end("job")
    assert text_of(await answering_it) == results(ask={"result": "Held."})


async def test_tool_beside_task_waits_in_process(remote: Remote) -> None:
    """ADK runs the agent of a task after the message's tools, before it would see that one of them waits."""

    def work(seen: list[str]) -> list[Any]:
        return [call("finish_task", result="done")]

    def decide(seen: list[str]) -> list[Any]:
        found = [line.partition(": ")[2] for line in seen if " -> " in line]
        return ["; ".join(found)] if found else [call("inner", request="go"), call("ask", text=remote.hold("job"))]

    def build(talk: Talk) -> Any:
        inner = LlmAgent(name="inner", model=DecidingLlm(decide=work), mode="task")
        return LlmAgent(
            name="root",
            model=DecidingLlm(decide=decide),
            tools=[FunctionTool(Files(talk, remote).ask)],
            sub_agents=[inner],
        )

    talk = Talk(build)
    text = text_of(await waits_in_process(talk, remote, seconds=0.3))
    assert "ask -> {'result': 'Held.'}" in text, text
    assert "inner -> " in text, text


async def test_callbacks_of_waiting_agent_frame_its_whole_run(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        def after(callback_context: Any) -> None:
            talk.note("ended")

        return caller([call("ask", text=remote.hold("job"))], Files(talk, remote).ask, after_agent_callback=after)

    talk = Talk(build)
    task = await talk.send()
    assert [what for what, _ in talk.notes] == ["ask"]
    remote.end("job")
    await talk.passes(task, 30, step=5)
    assert [what for what, _ in talk.notes] == ["ask", "ask", "ended"]


async def test_transfer_beside_waiting_tool_happens_after_it(remote: Remote) -> None:
    def build(talk: Talk) -> Any:
        calls = [call("transfer_to_agent", agent_name="other"), call("ask", text=remote.hold("job"))]
        return LlmAgent(
            name="root",
            model=DecidingLlm(decide=lambda seen: calls),
            tools=[Files(talk, remote).ask],
            sub_agents=[answering("other")],
        )

    talk = Talk(build)
    task = await talk.send()
    assert text_of(task).startswith("Waiting for"), text_of(task)
    remote.end("job")
    task = await talk.passes(task, 60, step=5)
    assert task.status.state == 3, text_of(task)
    assert [event.author for event in talk.events()][-1] == "other"
    assert talk.history() == ["transfer_to_agent()", "ask()", "-> transfer_to_agent", "-> ask"]


async def test_next_message_reads_history_that_adk_wrote(remote: Remote) -> None:
    """The stored session is one that ADK's own Runner goes on with."""
    talk = Talk(lambda talk: caller([call("book"), call("ask", text=remote.hold("job"))], *Files(talk, remote).both))
    task = await talk.send()
    remote.end("job")
    task = await talk.passes(task, 30, step=5)
    assert "Held." in text_of(task)
    runner = Runner(
        app_name="test",
        agent=LlmAgent(name="root", model=(model := scripted_model(["Yes."]))),
        session_service=talk.sessions,
    )
    message = genai.Content(role="user", parts=[genai.Part(text="Sure?")])
    events = [event async for event in runner.run_async(user_id="owner", session_id="c", new_message=message)]
    assert events[-1].content == content(genai.Part(text="Yes."))
    (seen,) = model.seen
    lines = texts(seen)
    assert lines[1:5] == [
        "model: book({})",
        f"model: ask({{'text': '{remote.hold('job')}'}})",
        "user: book -> {'booked': 'a flight'}",
        "user: ask -> {'result': 'Held.'}",
    ]
    assert lines[-1] == "user: Sure?"
    assert len(lines) == 7
