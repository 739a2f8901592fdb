"""Resumption of ADK turns after a crash or at the deadline: no output is lost or repeated."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import httpx
import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext

from aion.adk import get_aion_context
from aion.shared.types import A2AOutbox
from aion_core.agents.adk.resumption import TRANSFER_NOT_RESUMABLE
from aion_core.engine.agent_options import AfterCrash
from aion_core.engine.records import Head
from aion_core.engine.runner import renewal
from aion_core.errors import StoreUnavailable
from aion_core.protocol.types import Message, Part, Role
from tests.support.adk import (
    CrashingSessions,
    DecidingLlm,
    answer_text,
    call,
    earlier,
    scripted_model,
    served,
    task_of,
    text_event,
    yielding_agent,
)
from tests.support.clock import ManualClock, settle
from tests.support.rows import places
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def reset_runs() -> None:
    ran.clear()


async def run_to_end(served_agent: Any, clock: ManualClock | None = None, store: Any = None) -> dict[str, Any]:
    """Return the task of one message; try its turn again until the turn ends."""
    clock = clock or ManualClock()
    made = parts(
        served_agent, store(clock) if store else MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9
    )
    async with http(made.app()) as client:
        return task_of(await patient(client.post("/", json=send()), clock))


async def patient(request: Coroutine[Any, Any, httpx.Response], clock: ManualClock) -> Any:
    """Return the response's JSON after as many tries as the turn needs; during a try the clock stands still."""
    sending = asyncio.create_task(request)
    while not sending.done():
        await settle()
        if not renewal.beating:
            clock.move(5_001)
    return sending.result().json()


def outcome(task: dict[str, Any]) -> tuple[str, Any, list[str]]:
    return task["status"]["state"].removeprefix("TASK_STATE_"), answer_text(task), earlier(task)


async def pay(amount: int) -> str:
    ran["pay"] += 1
    return f"paid {amount}"


async def notify(tool_context: ToolContext) -> str:
    """Notify the client."""
    ran["notify"] += 1
    await get_aion_context().thread.post("I am on it.")
    return "told"


def paying_agent(name: str = "root") -> LlmAgent:
    def decide(seen: list[str]) -> list[Any]:
        if any("notify ->" in line for line in seen):
            return ["All ", "done."]
        if any("pay ->" in line for line in seen):
            return ["Paid. ", call("notify")]
        return ["Let me pay.", call("pay", amount=1)]

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=[pay, notify])


def answering(name: str) -> LlmAgent:
    return LlmAgent(name=name, model=DecidingLlm(decide=lambda seen: [f"{name} said."]), include_contents="none")


def loop_agent() -> LoopAgent:
    def decide(seen: list[str]) -> list[Any]:
        rounds = sum("round" in line for line in seen)
        return [f"round {rounds + 1}"] if rounds < 2 else [call("exit_loop")]

    inner = LlmAgent(name="inner", model=DecidingLlm(decide=decide), tools=[exit_loop])
    return LoopAgent(name="loop", sub_agents=[inner], max_iterations=5)


def node(node_input: Any) -> str:
    ran["node"] += 1
    return f"after {node_input}"


def delegating_agent() -> LlmAgent:
    """Return an agent with a single-turn sub-agent: its answer goes to the agent, not to the client."""

    def decide(seen: list[str]) -> list[Any]:
        if any("helper" in line and "->" in line for line in seen):
            return ["All done."]
        return [call("helper", request="help")]

    helper = LlmAgent(
        name="helper", description="Helps.", mode="single_turn", model=DecidingLlm(decide=lambda seen: ["I helped."])
    )
    return LlmAgent(name="root", model=DecidingLlm(decide=decide), sub_agents=[helper])


def transferring_agent(to: str = "one") -> LlmAgent:
    """Return an agent that transfers each message to its sub-agent."""

    def decide(seen: list[str]) -> list[Any]:
        return ["Not I. ", call("transfer_to_agent", agent_name=to)]

    return LlmAgent(name="root", model=DecidingLlm(decide=decide), sub_agents=[paying_agent(to)])


def twice_transferring_agent() -> LlmAgent:
    root, two = transferring_agent(), paying_agent("two")

    def decide(seen: list[str]) -> list[Any]:
        return ["Nor I. ", call("transfer_to_agent", agent_name="two")]

    one = LlmAgent(name="one", model=DecidingLlm(decide=decide), sub_agents=[two])
    return LlmAgent(name="root", model=root.model, sub_agents=[one])


def back_transferring_agent() -> LlmAgent:
    def of_root(seen: list[str]) -> list[Any]:
        if any("pay" in line for line in seen):
            return ["All done."]
        return ["Not I. ", call("transfer_to_agent", agent_name="one")]

    def of_one(seen: list[str]) -> list[Any]:
        if any("pay ->" in line for line in seen):
            return ["Back. ", call("transfer_to_agent", agent_name="root")]
        return ["Let me pay.", call("pay", amount=1)]

    one = LlmAgent(name="one", model=DecidingLlm(decide=of_one), tools=[pay])
    return LlmAgent(name="root", model=DecidingLlm(decide=of_root), sub_agents=[one])


TREES: dict[str, Callable[[], Any]] = {
    "an LLM agent": paying_agent,
    "agents that transfer one after another": twice_transferring_agent,
    "agents that transfer back": back_transferring_agent,
    "one that transfers to a sequence in a sequence": lambda: SequentialAgent(
        name="sequence",
        sub_agents=[
            LlmAgent(
                name="root",
                model=transferring_agent("inner").model,
                sub_agents=[SequentialAgent(name="inner", sub_agents=[answering("one"), paying_agent("two")])],
            ),
            answering("last"),
        ],
    ),
    "an LLM agent that delegates": delegating_agent,
    "in a sequence": lambda: SequentialAgent(
        name="root", sub_agents=[answering("one"), paying_agent("two"), answering("three")]
    ),
    "in a loop": loop_agent,
    "in parallel": lambda: ParallelAgent(name="root", sub_agents=[answering("one"), answering("two")]),
    "in a workflow": lambda: Workflow(name="root", edges=[("START", answering("one"), node)]),
}


def comparable(tree: str, ended: tuple[str, Any, list[str]]) -> Any:
    """Return what must be equal with and without a crash, such as messages without their order in parallel branches."""
    state, answer, before = ended
    if tree == "in parallel":
        # Ignore the order, because any branch may end last, and its message is then the answer.
        return state, sorted([*before, str(answer)])
    if tree == "an LLM agent that delegates":
        # Ignore repeated messages: ADK repeats a tool call whose result is not stored, so the sub-agent answers again.
        return state, answer, list(dict.fromkeys(before))
    return ended


COMBINED = {"one that transfers to a sequence in a sequence", "agents that transfer one after another"}
"""Trees that combine other trees."""
one_after_another = pytest.mark.parametrize(
    "tree",
    [pytest.param(tree, marks=[pytest.mark.deep] * (tree in COMBINED)) for tree in TREES if tree != "in parallel"],
)


@pytest.mark.parametrize("tree", [pytest.param(tree, marks=[pytest.mark.deep] * (tree in COMBINED)) for tree in TREES])
async def test_turn_resumed_after_crash_has_same_result(tree: str) -> None:
    """End the process after one stored event, a later event in each run, and resume the turn.

    A tool with a stored result is not called a second time; no message is lost or recorded twice.
    """
    sessions = CrashingSessions()
    undisturbed = outcome(await run_to_end(served(TREES[tree](), sessions)))
    assert undisturbed[0] == "COMPLETED"
    once = Counter(ran)
    for place in places(sessions.appends):
        ran.clear()
        dying = CrashingSessions(place)
        cut = outcome(await run_to_end(served(TREES[tree](), dying)))
        assert comparable(tree, cut) == comparable(tree, undisturbed), f"cut at event {place}"
        assert sum(event.author == "user" for event in dying.stored()) == 1
        # Allow a second run of a workflow's node: ADK repeats a node whose output is stored, but not its end.
        assert ran == once or tree == "in a workflow", f"cut at event {place}"


@one_after_another
async def test_resumed_turn_repeats_session_event_that_was_not_stored(tree: str) -> None:
    """End the process before an event is stored: the model or tool runs again; its message is recorded once."""
    sessions = CrashingSessions()
    undisturbed = outcome(await run_to_end(served(TREES[tree](), sessions)))
    for place in places(sessions.appends, first=2):
        cut = outcome(await run_to_end(served(TREES[tree](), CrashingSessions(place, before=True))))
        assert comparable(tree, cut) == comparable(tree, undisturbed), f"cut at event {place}"


class CrashingTaskStore(MemoryTaskStore):
    """Task store with a simulated loss of the process at one record."""

    die_at = 0

    async def append(self, lease: Any, head: Head, *events: Any, keys: Any = ()) -> Head:
        self.appended = getattr(self, "appended", 0) + 1
        if self.appended == self.die_at:
            raise StoreUnavailable("the process is gone")
        return await super().append(lease, head, *events, keys=keys)


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param(tree, marks=[pytest.mark.deep] * (tree not in ("an LLM agent", "in a sequence", "in a workflow")))
        for tree in TREES
        if tree != "in parallel"
    ],
)
async def test_resumed_turn_records_stored_session_events_in_task_log(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash may leave the last events in the session only: the resumed turn adds them to the task's log."""
    undisturbed = outcome(await run_to_end(served(TREES[tree]()), store=CrashingTaskStore))
    for place in places(5):
        monkeypatch.setattr(CrashingTaskStore, "die_at", place)
        assert outcome(await run_to_end(served(TREES[tree]()), store=CrashingTaskStore)) == undisturbed, place


async def test_events_with_same_id_are_each_recorded_once_despite_crash() -> None:
    events = [text_event(text).model_copy(update={"id": "x1"}) for text in ("first", "second")]
    expected = ("COMPLETED", "last said.", ["hi", "first", "second"])
    for place in range(1, 6):
        root = SequentialAgent(name="root", sub_agents=[yielding_agent(*events), answering("last")])
        sessions = CrashingSessions(place)
        agent = served(root, sessions, resume=AfterCrash.RESTART)
        assert outcome(await run_to_end(agent)) == expected, f"cut at event {place}"


async def test_a2a_outbox_is_sent_once_despite_crash() -> None:
    """The session event stores the outbox in its metadata, so a resumed turn can still send it."""
    done = Message(role=Role.ROLE_AGENT, parts=[Part(text="Done!")])

    async def card(tool_context: ToolContext) -> str:
        """Make a card."""
        tool_context.state["a2a_outbox"] = A2AOutbox(message=done)
        return "made"

    def decide(seen: list[str]) -> list[Any]:
        return ["Beside."] if any("card ->" in line for line in seen) else [call("card")]

    for place in range(1, 5):
        dying = CrashingSessions(place)
        root = LlmAgent(name="root", model=DecidingLlm(decide=decide), tools=[card])
        assert outcome(await run_to_end(served(root, dying)))[:2] == ("COMPLETED", "Done!"), place
        assert not any("a2a_outbox" in event.actions.state_delta for event in dying.stored())


@pytest.mark.parametrize("place", [2, 3])
async def test_custom_agent_is_not_resumable(place: int) -> None:
    """End the process during a custom agent's turn: the turn fails, because the agent's work could run twice."""
    root = yielding_agent(
        lambda ctx: (ran.update(["custom"]), text_event("One."))[1], text_event("Two."), text_event("Three.")
    )
    task = await run_to_end(served(root, CrashingSessions(place)))
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "not resumable: the agent 'yielding' (YieldingAgent) is a custom agent" in str(answer_text(task))
    assert ran["custom"] == 1


@pytest.mark.parametrize("place", [1, 2, 3, 4])
@pytest.mark.parametrize("within", [False, True], ids=["the root", "in a sequence"])
async def test_custom_agent_restarts_after_crash_if_configured(place: int, within: bool) -> None:
    """Restart the agent because of `resume: restart`: messages that it repeats are recorded once."""

    def tree() -> BaseAgent:
        # Create a new agent each time, so that its events have new ids.
        custom = yielding_agent(*[lambda ctx, text=text: text_event(text) for text in ("One.", "Two.", "Three.")])
        return SequentialAgent(name="root", sub_agents=[answering("first"), custom]) if within else custom

    undisturbed = outcome(await run_to_end(served(tree())))
    cut = await run_to_end(served(tree(), CrashingSessions(place), resume=AfterCrash.RESTART))
    assert outcome(cut) == undisturbed


@pytest.mark.parametrize(
    ("workflow", "resume"),
    [
        (SequentialAgent, AfterCrash.FAIL),
        (LoopAgent, AfterCrash.RESTART),
        pytest.param(ParallelAgent, AfterCrash.FAIL, marks=pytest.mark.deep),
    ],
)
async def test_interrupted_turn_after_transfer_to_workflow_fails_or_restarts(
    workflow: type[BaseAgent], resume: AfterCrash
) -> None:
    """ADK would restart this workflow and skip the interrupted step, so the turn fails, or runs again from its message."""

    def tree() -> LlmAgent:
        model = DecidingLlm(decide=lambda seen: [call("transfer_to_agent", agent_name="flow")])
        limit = {"max_iterations": 1} if workflow is LoopAgent else {}
        flow = workflow(name="flow", sub_agents=[answering("first"), paying_agent("second")], **limit)  # type: ignore[arg-type]
        return LlmAgent(name="root", model=model, sub_agents=[flow])

    sessions = CrashingSessions()
    undisturbed = outcome(await run_to_end(served(tree(), sessions)))
    assert undisturbed[:2] == ("COMPLETED", "I am on it.")
    ends = {}
    for place in places(sessions.appends):
        ran.clear()
        ended = outcome(await run_to_end(served(tree(), CrashingSessions(place), resume=resume)))
        assert ended == undisturbed or ended[:2] == ("FAILED", TRANSFER_NOT_RESUMABLE), f"cut at event {place}"
        assert len(set(ended[2])) == len(ended[2]), f"cut at event {place}"
        assert ran["pay"] <= 1 or resume is AfterCrash.RESTART, f"cut at event {place}"
        ends[place] = ended[0]
    assert {ends[1], ends[4], ends[sessions.appends]} == {"COMPLETED"}
    assert ends[7] == ("COMPLETED" if resume is AfterCrash.RESTART else "FAILED")


async def test_only_llm_agent_resumes_if_adk_app_disables_resumability() -> None:
    for root, ended in (
        (paying_agent(), "COMPLETED"),
        (SequentialAgent(name="root", sub_agents=[paying_agent("two")]), "FAILED"),
    ):
        ran.clear()
        app = App(name="app", root_agent=root, resumability_config=ResumabilityConfig(is_resumable=False))
        task = await run_to_end(served(app, CrashingSessions(3)))
        assert outcome(task)[0] == ended
        assert ended == "COMPLETED" or "the App has switched its resumability off" in str(answer_text(task))
        assert ran["pay"] == 1


async def test_turn_resumed_after_its_answer_does_not_call_model() -> None:
    """Crash after the last event but before ADK's end marker: the resumed turn does not call the model."""
    model = scripted_model(["The answer."])
    task = await run_to_end(served(LlmAgent(name="root", model=model), CrashingSessions(2)))
    assert outcome(task)[:2] == ("COMPLETED", "The answer.")
    assert len(model.seen) == 1


async def test_resumed_turn_does_not_repeat_answered_interrupt() -> None:
    """Answer an interrupt, then crash: the resumed turn uses the answer and does not ask again."""
    from google.adk.tools.long_running_tool import LongRunningFunctionTool

    def approve() -> None:
        """Wait for an approval."""

    def decide(seen: list[str]) -> list[Any]:
        if any("pay ->" in line for line in seen):
            return ["Paid."]
        if any("approve ->" in line for line in seen):
            return [call("pay", amount=1)]
        return [call("approve", "call-1")]

    for place in range(3, 8):
        ran.clear()
        root = LlmAgent(
            name="root", model=DecidingLlm(decide=decide), tools=[LongRunningFunctionTool(func=approve), pay]
        )
        clock = ManualClock()
        made = parts(
            served(root, CrashingSessions(place)),
            MemoryTaskStore(clock),
            clock,
            lease_seconds=10_000,
            blocking_wait=1e9,
        )
        async with http(made.app()) as client:
            question = task_of((await client.post("/", json=send())).json())
            assert question["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            request = send("yes", message_id="m-2", taskId=question["id"])
            task = task_of(await patient(client.post("/", json=request), clock))
        assert outcome(task)[:2] == ("COMPLETED", "Paid."), place
        assert ran["pay"] == 1


def asking_agent() -> LlmAgent:
    """Return an agent that asks the user by a long-running tool, then tells the answer."""
    from google.adk.tools.long_running_tool import LongRunningFunctionTool

    def approve() -> dict[str, str]:
        """Wait for an approval."""
        return {"status": "pending"}

    def decide(seen: list[str]) -> list[Any]:
        if any("approve -> {'result': 'yes'}" in line for line in seen):
            return ["Approved."]
        return ["I have asked."] if any("approve ->" in line for line in seen) else [call("approve", "call-1")]

    return LlmAgent(name="asks", model=DecidingLlm(decide=decide), tools=[LongRunningFunctionTool(func=approve)])


def repeating(name: str) -> LlmAgent:
    return LlmAgent(name=name, model=DecidingLlm(decide=lambda seen: [f"From {name}."]))


def in_parallel() -> ParallelAgent:
    return ParallelAgent(name="both", sub_agents=[asking_agent(), repeating("other")])


ASKING_TREES: dict[str, Callable[[], BaseAgent]] = {
    "sequence": lambda: SequentialAgent(name="root", sub_agents=[asking_agent(), repeating("last")]),
    "loop": lambda: LoopAgent(name="root", max_iterations=1, sub_agents=[asking_agent(), repeating("last")]),
    "parallel": lambda: SequentialAgent(name="root", sub_agents=[in_parallel(), repeating("last")]),
}


@pytest.mark.parametrize("tree", ["parallel", "sequence", pytest.param("loop", marks=pytest.mark.deep)])
async def test_workflow_agent_waits_for_answer_despite_crash(tree: str) -> None:
    """Crash after each stored event of both turns: the agents after the question run only after the answer."""

    async def appends(place: int) -> int:
        clock, sessions = ManualClock(), CrashingSessions(place)
        agent = served(ASKING_TREES[tree](), sessions)
        made = parts(agent, MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        async with http(made.app()) as client:
            question = task_of(await patient(client.post("/", json=send()), clock))
            assert outcome(question)[0] == "INPUT_REQUIRED"
            assert "From last." not in earlier(question), place
            request = send("yes", message_id="m-2", taskId=question["id"])
            task = task_of(await patient(client.post("/", json=request), clock))
        assert outcome(task)[:2] == ("COMPLETED", "From last."), place
        assert "Approved." in earlier(task), place
        return sessions.appends

    last = await appends(0)
    assert last > 8
    for place in places(last):
        await appends(place)


async def test_each_confirmed_tool_runs_once_despite_crash() -> None:
    """One message answers two parallel agents; crash after each stored event of the following turn."""

    def tree() -> ParallelAgent:
        def decide(seen: list[str]) -> list[Any]:
            return ["Paid."] if any("pay -> {'result'" in line for line in seen) else [call("pay", amount=1)]

        tools: list[Any] = [FunctionTool(pay, require_confirmation=True)]
        agents: list[BaseAgent] = [
            LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=tools) for name in ("one", "two")
        ]
        return ParallelAgent(name="root", sub_agents=agents)

    async def appends(place: int) -> tuple[int, int]:
        """Return the numbers of events of the first turn, and of both."""
        ran.clear()
        clock, sessions = ManualClock(), CrashingSessions(place)
        made = parts(served(tree(), sessions), MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9)
        async with http(made.app()) as client:
            question = task_of(await patient(client.post("/", json=send()), clock))
            assert question["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            asked, request = sessions.appends, send(message_id="m-2", taskId=question["id"])
            request["params"]["message"]["parts"] = [
                {"text": "yes", "metadata": {"interruptId": each["id"]}}
                for each in question["status"]["message"]["metadata"]["interrupts"]
            ]
            task = task_of(await patient(client.post("/", json=request), clock))
        assert (outcome(task)[0], ran["pay"]) == ("COMPLETED", 2), place
        return asked, sessions.appends

    asked, last = await appends(0)
    assert last > asked + 4
    for place in places(last, first=asked + 1):
        await appends(place)


# ── Deadline ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def run_drained(served_agent: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], int]:
    """Return the task of one message and its number of handoffs; each try is asked to drain as soon as it starts."""
    handoffs = 0
    run = served_agent.run

    async def hurried(question: Any) -> AsyncGenerator[Any, None]:
        nonlocal handoffs
        handoffs += 1
        question.drain.set()
        async for emission in run(question):
            yield emission

    monkeypatch.setattr(served_agent, "run", hurried)
    return await run_to_end(served_agent), handoffs


@one_after_another
async def test_turn_handed_to_another_process_resumes_after_stored_events(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process stores one event before it hands the turn off; the client sees one uninterrupted turn."""
    undisturbed = outcome(await run_to_end(served(TREES[tree]())))
    once = Counter(ran)
    ran.clear()
    task, handoffs = await run_drained(served(TREES[tree]()), monkeypatch)
    assert outcome(task) == undisturbed
    assert handoffs > 2
    assert ran == once


async def test_custom_adk_agent_finishes_although_its_process_must_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    task, handoffs = await run_drained(served(yielding_agent(text_event("One."), text_event("Two."))), monkeypatch)
    assert (outcome(task), handoffs) == (("COMPLETED", "Two.", ["hi", "One."]), 1)
