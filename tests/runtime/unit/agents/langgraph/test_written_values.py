"""Values that a graph writes: its declared output is the answer, other values follow the text of the answer."""

import json
import logging
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.managed import RemainingSteps
from pydantic import BaseModel

from aion.langgraph import get_aion_context
from aion.shared.types import A2AOutbox
from aion_core.agents.langgraph.agent import LangGraphAgent
from aion_core.agents.langgraph.graph_answer import NO_ANSWER
from aion_core.agents.langgraph.written_values import MAX_BYTES
from aion_core.protocol.types import Message, Part, Role
from tests.runtime.golden.graphs import model_saying
from tests.runtime.unit.agents.langgraph.shapes import ends_with_tool, result_as_human, worker_as_human
from tests.support.histories import json_messages_of
from tests.support.service import http, parts, send

State = dict[str, Any]


@pytest.fixture(params=["SendMessage", pytest.param("message/send", marks=pytest.mark.deep)])
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def tasks_of(graph: Any, method: str, *texts: str) -> list[State]:
    """Send the texts to one context, each to its task if that is interrupted; return the task after each."""
    tasks: list[State] = []
    async with http(parts(graph).app()) as client:
        for number, text in enumerate(texts):
            context = {"contextId": tasks[-1]["contextId"]} if tasks else {}
            result = (
                await client.post("/", json=send(text, message_id=f"m-{number}", method=method, **context))
            ).json()
            tasks.append(result["result"].get("task", result["result"]))
    return tasks


def answer_of(task: State) -> list[Any]:
    """Return the texts and data in the parts of the answer."""
    message = task["status"].get("message") or {"parts": []}
    return [part.get("text", part.get("data")) for part in message["parts"]]


class Topic(TypedDict):
    topic: str


class Report(TypedDict):
    report: str


class ReportModel(BaseModel):
    report: str


@dataclass
class ReportClass:
    report: str


class Whole(Topic, Report):
    notes: str


async def notes(state: Any) -> State:
    return {"notes": str((await model_saying(["inner ", "notes"]).ainvoke("go")).text)}


def report(state: Any) -> State:
    return {"report": "the report"}


def chain(schema: Any, *nodes: Any, **options: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(schema, **options)
    for node in nodes:
        graph.add_node(node.__name__, node)
    for before, after in zip(
        [START, *(each.__name__ for each in nodes)], (each.__name__ for each in nodes), strict=False
    ):
        graph.add_edge(before, after)
    return graph


# ── A declared output ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("output", [Report, ReportModel, ReportClass])
async def test_declared_output_of_any_class_is_the_answer(output: Any, method: str) -> None:
    graph = chain(Whole, notes, report, input_schema=Topic, output_schema=output)
    (task,) = await tasks_of(graph, method, "cats")
    assert answer_of(task) == ["the report"]
    assert [each["parts"][0].get("text") for each in json_messages_of(task)] == ["cats", "inner notes", "the report"]


async def test_answer_that_a_model_has_streamed_keeps_its_message_id() -> None:
    async def write(state: Any) -> State:
        return {"report": str((await model_saying(["the ", "report"]).ainvoke("go")).text)}

    async with http(parts(chain(Whole, write, input_schema=Topic, output_schema=Report)).app()) as client:
        answer = await client.post("/", json=send("cats", method="SendStreamingMessage"))
    results = [json.loads(line[6:])["result"] for line in answer.text.splitlines() if line.startswith("data: ")]
    (streamed,) = [
        each["artifactUpdate"]["artifact"]["metadata"]["messageId"]
        for each in results
        if "messageId" in each.get("artifactUpdate", {}).get("artifact", {}).get("metadata", {})
    ]
    assert results[-1]["statusUpdate"]["status"]["message"]["messageId"] == streamed


async def test_declared_message_is_the_answer(method: str) -> None:
    class Said(TypedDict):
        said: AIMessage

    class Talk(Topic, Said):
        pass

    def say(state: Talk) -> State:
        image = {"type": "image", "base64": "iVBO", "mime_type": "image/png"}
        return {"said": AIMessage([{"type": "text", "text": "A map."}, image])}

    (task,) = await tasks_of(chain(Talk, say, input_schema=Topic, output_schema=Said), method, "cats")
    assert len(answer_of(task)) == 2
    assert answer_of(task)[0] == "A map."


async def test_declared_output_is_an_answer_of_its_turn_only(method: str) -> None:
    """The second turn writes the same report again, the third turn writes nothing."""

    def write(state: Any) -> State:
        return report(state) if state["topic"] != "nothing" else {}

    graph = chain(Whole, write, input_schema=Topic, output_schema=Report)
    tasks = await tasks_of(graph, method, "one", "two", "nothing")
    assert [answer_of(task) for task in tasks] == [["the report"], ["the report"], []]


async def test_reply_and_outbox_come_before_declared_output(method: str) -> None:
    class Talk(Whole):
        a2a_outbox: A2AOutbox | None

    async def reply(state: Any) -> State:
        await get_aion_context().thread.reply("a reply")
        return report(state)

    def outbox(state: Any) -> State:
        return {**report(state), "a2a_outbox": Message(role=Role.ROLE_AGENT, parts=[Part(text="an outbox")])}

    class Output(Report):
        a2a_outbox: A2AOutbox | None

    for node, answer in ((reply, "a reply"), (outbox, "an outbox")):
        (task,) = await tasks_of(chain(Talk, node, input_schema=Topic, output_schema=Output), method, "cats")
        assert answer_of(task) == [answer]


# ── Values beside a text ──────────────────────────────────────────────────────────────────────────────────────────────


class Everything(Whole):
    _private: str
    a2a_note: str
    remaining: RemainingSteps
    talk: Annotated[list[AnyMessage], add_messages]
    number: int
    empty: str
    rows: list[int]


BESIDE: dict[str, tuple[State, list[Any]]] = {
    "a text": ({"report": "the report"}, [{"report": "the report"}]),
    "a number": ({"number": 0}, [{"number": 0}]),
    "a text that is said": ({"report": "inner  notes"}, []),
    "most of the text": ({"report": "inner note"}, []),
    "a label that occurs in the text": ({"report": "notes"}, [{"report": "notes"}]),
    "a text that is said, and a value": ({"report": "inner notes", "rows": [1, 2]}, [{"rows": [1, 2]}]),
    "private values": (
        {"_private": "secret", "a2a_note": "secret", "report": "the report"},
        [{"report": "the report"}],
    ),
    "empty values": ({"empty": "", "rows": [], "number": None}, []),
    "the client's message": ({"topic": "cats", "report": "the report"}, [{"report": "the report"}]),
    "another text for the client's": ({"topic": "cats and dogs"}, [{"topic": "cats and dogs"}]),
    "the end of a graph as a route": ({"report": END}, []),
    "messages that are said": ({"talk": [HumanMessage("cats"), AIMessage("inner notes")]}, []),
    "nothing": ({}, []),
}
"""Values that the last node writes, and the data parts of the answer after its text."""


@pytest.mark.parametrize("name", BESIDE)
async def test_values_of_last_node_follow_the_streamed_text(name: str, method: str) -> None:
    values, data = BESIDE[name]

    def last(state: Any) -> State:
        return values

    (task,) = await tasks_of(chain(Everything, notes, last, input_schema=Topic), method, "cats")
    assert answer_of(task) == ["inner notes", *data]


async def test_last_values_are_those_of_last_writing_node(method: str) -> None:
    def middle(state: Any) -> State:
        return {"number": 1}

    def tidy(state: Any) -> State:
        return {"_private": "tidied"}

    graph = chain(Everything, middle, notes, report, tidy, input_schema=Topic)
    (task,) = await tasks_of(graph, method, "cats")
    assert answer_of(task) == ["inner notes", {"report": "the report"}]


async def test_state_with_a_reducer_is_sent_whole(method: str) -> None:
    class Trail(Topic):
        trail: Annotated[list[str], lambda old, new: [*old, *new]]

    async def one(state: Any) -> State:
        await model_saying(["inner notes"]).ainvoke("go")
        return {"trail": ["one"]}

    def two(state: Any) -> State:
        return {"trail": ["two"]}

    (task,) = await tasks_of(chain(Trail, one, two, input_schema=Topic), method, "cats")
    assert answer_of(task) == ["inner notes", {"trail": ["one", "two"]}]


@pytest.mark.parametrize("has_text", [True, False])
@pytest.mark.parametrize("extra", [0, 1])
async def test_values_beyond_the_limit_are_an_artifact(extra: int, has_text: bool, method: str) -> None:
    text = "x" * (MAX_BYTES - len('{"data": {"report": ""}}') + extra)

    def write(state: Any) -> State:
        return {"report": text}

    nodes = [notes, write] if has_text else [write]
    (task,) = await tasks_of(chain(Whole, *nodes, input_schema=Topic), method, "cats")
    assert task["status"]["state"] in ("TASK_STATE_COMPLETED", "completed")
    said = ["inner notes"] if has_text else []
    assert answer_of(task) == (said if extra else [*said, {"report": text}])
    found = {each["name"]: each["parts"][0]["data"] for each in task.get("artifacts", [])}
    assert found == ({"output": {"report": text}} if extra else {})


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ({"topic": "cats", "report": "the report"}, {"report": "the report"}),
        ({"topic": "cats"}, {"topic": "cats"}),
    ],
)
async def test_returned_input_is_answer_only_if_alone(written: State, answer: State, method: str) -> None:
    def write(state: Any) -> State:
        return written

    (task,) = await tasks_of(chain(Whole, write, input_schema=Topic), method, "cats")
    assert answer_of(task) == [answer]


async def test_answer_has_returned_input_of_an_earlier_message() -> None:
    """The second message has no topic: the graph's topic is its own value then."""

    def write(state: Any) -> State:
        return {"topic": state["topic"], "number": state["number"] + 1}

    class Counted(Topic):
        number: int

    graph = chain(Counted, write)
    async with http(parts(graph).app()) as client:
        answers = []
        for number, data in enumerate(({"topic": "cats", "number": 1}, {"number": 1})):
            message = send("", parts=[{"data": data}], message_id=f"m-{number}", contextId="c-1")
            answers.append(answer_of((await client.post("/", json=message)).json()["result"]["task"]))
    assert answers == [[{"number": 2}], [{"topic": "cats", "number": 2}]]


class Client:
    """Object without a JSON form."""


@pytest.mark.parametrize("has_text", [True, False])
async def test_value_without_json_form_is_named_in_log(
    has_text: bool, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Holding(Whole):
        client: Any

    def write(state: Any) -> State:
        return {"report": "the report", "client": Client()}

    nodes = [notes, write] if has_text else [write]
    # Serve the graph without a checkpointer, because it could not store the object.
    agent = LangGraphAgent(chain(Holding, *nodes, input_schema=Topic))
    with caplog.at_level(logging.WARNING):
        (task,) = await tasks_of(agent, method, "cats")
    assert answer_of(task) == [*(["inner notes"] if has_text else []), {"report": "the report"}]
    problem = "The agent's data cannot be sent: the value of `client` has no JSON form (Client)."
    assert [record.message for record in caplog.records] == [problem]


# ── Turns that end with a tool's result ───────────────────────────────────────────────────────────────────────────────


async def test_turn_with_a_tool_result_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (task,) = await tasks_of(ends_with_tool(), "SendMessage", "cats")
    assert answer_of(task) == ["mail was sent to ada"]
    assert NO_ANSWER not in caplog.text


# ── Workers that report as HumanMessages ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("graph", [worker_as_human, result_as_human])
async def test_report_of_worker_is_not_added_twice(graph: Any, method: str) -> None:
    saver = InMemorySaver()
    first, second = await tasks_of(graph().compile(checkpointer=saver), method, "one", "two")
    assert (answer_of(first), answer_of(second)) == (["Cats are fine."], ["Cats are fine."])
    (state,) = [each async for each in saver.alist(None, limit=1)]
    texts = [each.text for each in state.checkpoint["channel_values"]["messages"]]
    assert texts == ["one", "Cats are fine.", "two", "Cats are fine."]
