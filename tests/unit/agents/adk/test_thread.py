"""A turn of an ADK agent whose process is lost, or whose time is up, is taken up again: nothing is lost or said twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk import Workflow
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.tools import ToolContext, exit_loop

from aion.adk import get_aion_context
from aion.shared.types import A2AOutbox
from aion_core.agents.adk.thread import TRANSFER_NOT_RESUMABLE
from aion_core.errors import StoreUnavailable
from aion_core.ports import AfterCrash, Head
from aion_core.protocol.types import Message, Part, Role
from tests.support.adk import DecidingLlm, DyingSessions, agent, call, history, said, saying, says, served, task_of
from tests.support.clock import ManualClock
from tests.support.service import http, parts, send
from tests.support.stores import MemoryTaskStore

ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


async def after_all(served_agent: Any, clock: ManualClock | None = None, store: Any = None) -> dict[str, Any]:
    """The task of one message, however often its turn has to be begun."""
    clock = clock or ManualClock()
    made = parts(
        served_agent, store(clock) if store else MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9
    )
    async with http(made.app()) as client:
        sending = asyncio.create_task(client.post("/", json=send()))
        while not sending.done():
            for _ in range(50):
                await asyncio.sleep(0)
            clock.move(5_001)
        return task_of(sending.result().json())


def outcome(task: dict[str, Any]) -> tuple[str, Any, list[str]]:
    return task["status"]["state"].removeprefix("TASK_STATE_"), said(task), history(task)


async def pay(amount: int) -> str:
    """Pay."""
    ran["pay"] += 1
    return f"paid {amount}"


async def tell(tool_context: ToolContext) -> str:
    """Tell the client."""
    ran["tell"] += 1
    await get_aion_context().thread.post("I am on it.")
    return "told"


def paying(name: str = "root") -> LlmAgent:
    def decide(seen: list[str]) -> list[Any]:
        if any("tell ->" in line for line in seen):
            return ["All ", "done."]
        if any("pay ->" in line for line in seen):
            return ["Paid. ", call("tell")]
        return ["Let me pay.", call("pay", amount=1)]

    return LlmAgent(name=name, model=DecidingLlm(decide=decide), tools=[pay, tell])


def simply(name: str) -> LlmAgent:
    return LlmAgent(name=name, model=DecidingLlm(decide=lambda seen: [f"{name} said."]), include_contents="none")


def looping() -> LoopAgent:
    def decide(seen: list[str]) -> list[Any]:
        rounds = sum("round" in line for line in seen)
        return [f"round {rounds + 1}"] if rounds < 2 else [call("exit_loop")]

    inner = LlmAgent(name="inner", model=DecidingLlm(decide=decide), tools=[exit_loop])
    return LoopAgent(name="loop", sub_agents=[inner], max_iterations=5)


def node(node_input: Any) -> str:
    ran["node"] += 1
    return f"after {node_input}"


def delegating() -> LlmAgent:
    """Its sub-agent answers it, and not the client."""

    def decide(seen: list[str]) -> list[Any]:
        if any("helper" in line and "->" in line for line in seen):
            return ["All done."]
        return [call("helper", request="help")]

    helper = LlmAgent(
        name="helper", description="Helps.", mode="single_turn", model=DecidingLlm(decide=lambda seen: ["I helped."])
    )
    return LlmAgent(name="root", model=DecidingLlm(decide=decide), sub_agents=[helper])


def transferring(to: str = "one") -> LlmAgent:
    """Its sub-agent answers in its place."""

    def decide(seen: list[str]) -> list[Any]:
        return ["Not I. ", call("transfer_to_agent", agent_name=to)]

    return LlmAgent(name="root", model=DecidingLlm(decide=decide), sub_agents=[paying(to)])


def transferring_twice() -> LlmAgent:
    root, two = transferring(), paying("two")

    def decide(seen: list[str]) -> list[Any]:
        return ["Nor I. ", call("transfer_to_agent", agent_name="two")]

    one = LlmAgent(name="one", model=DecidingLlm(decide=decide), sub_agents=[two])
    return LlmAgent(name="root", model=root.model, sub_agents=[one])


def transferring_back() -> LlmAgent:
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
    "an LLM agent": paying,
    "agents that transfer one after another": transferring_twice,
    "agents that transfer back": transferring_back,
    "one that transfers to a sequence in a sequence": lambda: SequentialAgent(
        name="sequence",
        sub_agents=[
            LlmAgent(
                name="root",
                model=transferring("inner").model,
                sub_agents=[SequentialAgent(name="inner", sub_agents=[simply("one"), paying("two")])],
            ),
            simply("last"),
        ],
    ),
    "an LLM agent that delegates": delegating,
    "in a sequence": lambda: SequentialAgent(name="root", sub_agents=[simply("one"), paying("two"), simply("three")]),
    "in a loop": looping,
    "in parallel": lambda: ParallelAgent(name="root", sub_agents=[simply("one"), simply("two")]),
    "in a workflow": lambda: Workflow(name="root", edges=[("START", simply("one"), node)]),
}


def alike(tree: str, ended: tuple[str, Any, list[str]]) -> Any:
    """What has to be the same, however often the turn was cut."""
    state, answer, before = ended
    if tree == "in parallel":
        # Whoever ends last has the last word.
        return state, sorted([*before, str(answer)])
    if tree == "an LLM agent that delegates":
        # The sub-agent is a call: one whose result is not stored is made again, and the sub-agent speaks again.
        return state, answer, list(dict.fromkeys(before))
    return ended


@pytest.mark.parametrize("tree", TREES)
async def test_a_turn_that_is_cut_at_any_event_ends_as_if_it_had_not_been(tree: str) -> None:
    """Fixed decision 6, FRAMEWORKS: each stored event is a place to go on from, and each may be the last of a process.

    A tool whose result is stored is not called again; nothing is said twice, and nothing is lost.
    """
    sessions = DyingSessions()
    undisturbed = outcome(await after_all(served(TREES[tree](), sessions)))
    assert undisturbed[0] == "COMPLETED"
    once = Counter(ran)
    for place in range(1, sessions.appends + 1):
        ran.clear()
        dying = DyingSessions(place)
        cut = outcome(await after_all(served(TREES[tree](), dying)))
        assert alike(tree, cut) == alike(tree, undisturbed), f"cut at event {place}"
        assert sum(event.author == "user" for event in dying.stored()) == 1
        # A workflow's node is run again where what it returned is stored and its end is not: at least once, as ADK says.
        assert ran == once or tree == "in a workflow", f"cut at event {place}"


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree != "in parallel"])
async def test_an_event_that_was_not_stored_is_made_again(tree: str) -> None:
    """At least once, as ADK says: what was said of it is said once."""
    sessions = DyingSessions()
    undisturbed = outcome(await after_all(served(TREES[tree](), sessions)))
    for place in range(1, sessions.appends + 1, 2):
        cut = outcome(await after_all(served(TREES[tree](), DyingSessions(place, before=True))))
        assert alike(tree, cut) == alike(tree, undisturbed), f"cut at event {place}"


class DyingLog(MemoryTaskStore):
    """Loses the process at one of its records, which is not made."""

    die_at = 0

    async def append(self, lease: Any, head: Head, event: Any, *, key: str = "") -> Head:
        self.appended = getattr(self, "appended", 0) + 1
        if self.appended == self.die_at:
            raise StoreUnavailable("the process is gone")
        return await super().append(lease, head, event, key=key)


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree != "in parallel"])
async def test_what_is_stored_and_was_not_recorded_is_recorded_first(
    tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DESIGN, 15 minutes: on resume, session events after the last logged one are recorded first."""
    undisturbed = outcome(await after_all(served(TREES[tree]()), store=DyingLog))
    for place in range(1, 6):
        monkeypatch.setattr(DyingLog, "die_at", place)
        assert outcome(await after_all(served(TREES[tree]()), store=DyingLog)) == undisturbed, place


async def test_an_outbox_outlasts_its_process() -> None:
    """R87: it is out of the state, and kept with its event."""
    done = Message(role=Role.ROLE_AGENT, parts=[Part(text="Done!")])

    async def card(tool_context: ToolContext) -> str:
        """Make a card."""
        tool_context.state["a2a_outbox"] = A2AOutbox(message=done)
        return "made"

    def decide(seen: list[str]) -> list[Any]:
        return ["Beside."] if any("card ->" in line for line in seen) else [call("card")]

    for place in range(1, 5):
        dying = DyingSessions(place)
        root = LlmAgent(name="root", model=DecidingLlm(decide=decide), tools=[card])
        assert outcome(await after_all(served(root, dying)))[:2] == ("COMPLETED", "Done!"), place
        assert not any("a2a_outbox" in event.actions.state_delta for event in dying.stored())


@pytest.mark.parametrize("place", [2, 3])
async def test_a_custom_agent_is_not_resumable_and_says_so(place: int) -> None:
    """DESIGN, 15 minutes: nothing is done twice."""
    root = agent(lambda ctx: (ran.update(["custom"]), says("One."))[1], says("Two."), says("Three."))
    task = await after_all(served(root, DyingSessions(place)))
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "not resumable" in str(said(task))
    assert ran["custom"] == 1


@pytest.mark.parametrize("place", [1, 2, 3, 4])
@pytest.mark.parametrize("within", [False, True], ids=["the root", "in a sequence"])
async def test_a_custom_agent_starts_over_where_its_author_says_so(place: int, within: bool) -> None:
    """`resume: restart`: it is run again, and what it says again is said once."""

    def tree() -> BaseAgent:
        # Made anew each time, and so with ids of their own.
        custom = agent(*[lambda ctx, text=text: says(text) for text in ("One.", "Two.", "Three.")])
        return SequentialAgent(name="root", sub_agents=[simply("first"), custom]) if within else custom

    undisturbed = outcome(await after_all(served(tree())))
    cut = await after_all(served(tree(), DyingSessions(place), resume=AfterCrash.RESTART))
    assert outcome(cut) == undisturbed


@pytest.mark.parametrize(
    ("workflow", "resume"),
    [(SequentialAgent, AfterCrash.FAIL), (LoopAgent, AfterCrash.RESTART), (ParallelAgent, AfterCrash.FAIL)],
)
async def test_a_workflow_that_work_was_transferred_to_is_not_resumable_and_says_so(
    workflow: type[BaseAgent], resume: AfterCrash
) -> None:
    """ADK would begin it anew, and leave out the step that was cut: it is finished, or fails, and leaves out nothing."""

    def tree() -> LlmAgent:
        model = DecidingLlm(decide=lambda seen: [call("transfer_to_agent", agent_name="flow")])
        limit = {"max_iterations": 1} if workflow is LoopAgent else {}
        flow = workflow(name="flow", sub_agents=[simply("first"), paying("second")], **limit)  # type: ignore[arg-type]
        return LlmAgent(name="root", model=model, sub_agents=[flow])

    sessions = DyingSessions()
    undisturbed = outcome(await after_all(served(tree(), sessions)))
    assert undisturbed[:2] == ("COMPLETED", "I am on it.")
    ends = []
    for place in range(1, sessions.appends + 1):
        ran.clear()
        ended = outcome(await after_all(served(tree(), DyingSessions(place), resume=resume)))
        assert ended == undisturbed or ended[:2] == ("FAILED", TRANSFER_NOT_RESUMABLE), f"cut at event {place}"
        assert len(set(ended[2])) == len(ended[2]), f"cut at event {place}"
        assert ran["pay"] <= 1, f"cut at event {place}"
        ends.append(ended[0])
    assert {ends[0], ends[3], ends[-1]} == {"COMPLETED"}
    assert ends[6] == "FAILED"


async def test_an_app_that_is_not_resumable_stays_so() -> None:
    """Section 3: its LLM agent goes on by what is stored, a workflow of it does not."""
    for root, ended in ((paying(), "COMPLETED"), (SequentialAgent(name="root", sub_agents=[paying("two")]), "FAILED")):
        ran.clear()
        app = App(name="app", root_agent=root, resumability_config=ResumabilityConfig(is_resumable=False))
        task = await after_all(served(app, DyingSessions(3)))
        assert outcome(task)[0] == ended
        assert ran["pay"] == 1


async def test_a_turn_whose_last_event_is_final_is_finished_and_no_model_is_asked_again() -> None:
    """FRAMEWORKS 2.1: the crash falls before ADK has marked the end."""
    model = saying(["The answer."])
    task = await after_all(served(LlmAgent(name="root", model=model), DyingSessions(2)))
    assert outcome(task)[:2] == ("COMPLETED", "The answer.")
    assert len(model.seen) == 1


async def test_an_answer_that_was_taken_is_not_asked_for_again() -> None:
    """Section 3: a turn that answers is taken up again like any other."""
    from google.adk.tools import LongRunningFunctionTool

    def approve() -> None:
        """Ask."""

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
            served(root, DyingSessions(place)), MemoryTaskStore(clock), clock, lease_seconds=10_000, blocking_wait=1e9
        )
        async with http(made.app()) as client:
            asked = task_of((await client.post("/", json=send())).json())
            assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            answering = asyncio.create_task(client.post("/", json=send("yes", message_id="m-2", taskId=asked["id"])))
            while not answering.done():
                for _ in range(50):
                    await asyncio.sleep(0)
                clock.move(5_001)
            task = task_of(answering.result().json())
        assert outcome(task)[:2] == ("COMPLETED", "Paid."), place
        assert ran["pay"] == 1


# ── Its time is up ────────────────────────────────────────────────────────────────────────────────────────────────────


async def drained(served_agent: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], int]:
    """The task of a message whose turn is asked to stop as soon as it has begun, each time; and how often it was."""
    handoffs = 0
    run = served_agent.run

    async def hurried(asked: Any) -> AsyncGenerator[Any, None]:
        nonlocal handoffs
        handoffs += 1
        asked.drain.set()
        async for emission in run(asked):
            yield emission

    monkeypatch.setattr(served_agent, "run", hurried)
    return await after_all(served_agent), handoffs


@pytest.mark.parametrize("tree", [tree for tree in TREES if tree != "in parallel"])
async def test_a_turn_stops_after_an_event_and_goes_on_from_there(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DESIGN, 15 minutes: one event for each process, and the client cannot tell."""
    undisturbed = outcome(await after_all(served(TREES[tree]())))
    once = Counter(ran)
    ran.clear()
    task, handoffs = await drained(served(TREES[tree]()), monkeypatch)
    assert outcome(task) == undisturbed
    assert handoffs > 2
    assert ran == once


async def test_a_custom_agent_is_not_stopped_where_it_could_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    task, handoffs = await drained(served(agent(says("One."), says("Two."))), monkeypatch)
    assert (outcome(task), handoffs) == (("COMPLETED", "Two.", ["hi", "One."]), 1)
