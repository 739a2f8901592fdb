"""Shapes of LangGraph graphs, and what each answers. `python -m` this module writes the tables of docs/shapes.md."""

import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send, StreamWriter
from pydantic import BaseModel

from aion.langgraph.stream import emit_message
from tests.runtime.golden.graphs import asks_for, model_saying
from tests.runtime.unit.agents.langgraph.usual_agents import model, weather

PAGE = Path(__file__).parents[5] / "docs" / "shapes.md"
State = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """Shape of a graph: the client sends *cats*, and the task has these messages."""

    graph: Callable[[], Any]
    section: str
    before: tuple[str, ...] = ()
    """Texts of the messages before the answer."""
    answer: tuple[Any, ...] = ()
    """Parts of the answer: a text, or the data of a data part."""
    streamed: tuple[str, ...] = ()
    """Texts that are streamed before the message with the same text."""
    artifact: str = ""
    """Name of the artifact with values that are too large for the answer."""
    rare: bool = False
    """Tested, but without a row on the page."""


SHAPES: dict[str, Shape] = {}
"""Shapes by their descriptions in docs/shapes.md."""


def shape(description: str, section: str, *answer: Any, **expected: Any) -> Callable[[Any], Any]:
    def added(graph: Callable[[], Any]) -> Callable[[], Any]:
        SHAPES[description] = Shape(graph, section, answer=answer, **expected)
        return graph

    return added


def chain(schema: Any, *nodes: Any, **schemas: Any) -> StateGraph[Any, Any, Any, Any]:
    """Return a graph that runs the nodes one after another."""
    graph = StateGraph(schema, **schemas)
    for node in nodes:
        graph.add_node(node.__name__, node)
    for before, after in pairwise([START, *(node.__name__ for node in nodes), END]):
        graph.add_edge(before, after)
    return graph


# ── States without messages ───────────────────────────────────────────────────────────────────────────────────────────

DECLARED = "A declared output"
VALUES = "A state without messages, and no declared output"
MESSAGES = "A state with messages"
FUNCTIONS = "Functions"


class Topic(TypedDict):
    topic: str


class Report(TypedDict):
    report: str


class Writing(Topic, Report):
    notes: str
    score: int


async def notes(state: Writing) -> State:
    return {"notes": str((await model_saying(["inner ", "notes"]).ainvoke(state["topic"])).text)}


def report(state: Writing) -> State:
    return {"report": f"Report on {state['topic']}"}


@shape(
    "a text, written after an inner model call",
    DECLARED,
    "Report on cats",
    before=("inner notes",),
    streamed=("inner notes",),
)
def declared_text() -> Any:
    return chain(Writing, notes, report, input_schema=Topic, output_schema=Report)


@shape("a text that the model streams", DECLARED, "All about cats", streamed=("All about cats",))
def declared_streamed() -> Any:
    async def write(state: Writing) -> State:
        return {"report": str((await model_saying(["All about ", "cats"]).ainvoke("go")).text)}

    return chain(Writing, write, input_schema=Topic, output_schema=Report)


@shape(
    "several values",
    DECLARED,
    {"report": "Report on cats", "score": 7},
    before=("inner notes",),
    streamed=("inner notes",),
)
def declared_values() -> Any:
    class Scored(Report):
        score: int

    def score(state: Writing) -> State:
        return {"score": 7}

    return chain(Writing, notes, report, score, input_schema=Topic, output_schema=Scored)


@shape("a pydantic model", DECLARED, {"plan": {"steps": ["feed", "stroke"]}})
def declared_model() -> Any:
    class Plan(BaseModel):
        steps: list[str]

    class Planned(BaseModel):
        plan: Plan

    class Planning(Topic):
        plan: Plan

    def plan(state: Planning) -> State:
        return {"plan": Plan(steps=["feed", "stroke"])}

    return chain(Planning, plan, input_schema=Topic, output_schema=Planned)


@shape(
    "a text, while the state also has messages",
    DECLARED,
    "Report on cats",
    before=("Let me think.",),
    streamed=("Let me think.",),
)
def declared_beside_messages() -> Any:
    class Talk(MessagesState):
        report: str

    def think(state: Talk) -> State:
        return {"messages": [AIMessage("Let me think.")]}

    def write(state: Talk) -> State:
        return {"report": f"Report on {state['messages'][0].text}"}

    return chain(Talk, think, write, output_schema=Report)


@shape("nothing written in this turn: as without the output", DECLARED, "Which cats?", rare=True)
def declared_but_silent() -> Any:
    class Talk(MessagesState):
        report: str

    def ask(state: Talk) -> State:
        return {"messages": [AIMessage("Which cats?")]}

    return chain(Talk, ask, output_schema=Report)


@shape(
    "a text, in a loop with a judge",
    DECLARED,
    "Joke 2",
    before=("not funny", "funny"),
    streamed=("not funny", "funny"),
)
def declared_loop() -> Any:
    class Joking(Topic):
        joke: str
        rounds: int

    class Joke(TypedDict):
        joke: str

    def write(state: Joking) -> State:
        return {"joke": f"Joke {state.get('rounds', 0) + 1}", "rounds": state.get("rounds", 0) + 1}

    async def judge(state: Joking) -> Command[Literal["write", "__end__"]]:
        verdict = await model_saying(["not ", "funny"] if state["rounds"] == 1 else ["fun", "ny"]).ainvoke("go")
        return Command(goto="write" if str(verdict.text).startswith("not") else "__end__")

    graph = StateGraph(Joking, input_schema=Topic, output_schema=Joke).add_node("write", write).add_node("judge", judge)
    return graph.add_edge(START, "write").add_edge("write", "judge")


@shape(
    "streamed text, and a value of the last node",
    VALUES,
    "inner notes",
    {"report": "Report on cats"},
    streamed=("inner notes",),
)
def text_and_value() -> Any:
    return chain(Writing, notes, report, input_schema=Topic)


@shape("streamed text that is also the value", VALUES, "All about cats", streamed=("All about cats",))
def text_as_value() -> Any:
    async def write(state: Writing) -> State:
        return {"report": str((await model_saying(["All about ", "cats"]).ainvoke("go")).text)}

    return chain(Writing, write, input_schema=Topic)


@shape("streamed JSON, parsed into a value", VALUES, '{"legs": 4}', streamed=('{"legs": 4}',), rare=True)
def text_as_json() -> Any:
    class Counted(Topic):
        cat: dict[str, int]

    async def count(state: Counted) -> State:
        return {"cat": json.loads(str((await model_saying(['{"legs"', ": 4}"]).ainvoke("go")).text))}

    return chain(Counted, count, input_schema=Topic)


@shape("values only", VALUES, {"report": "Report on cats", "score": 7})
def values_only() -> Any:
    def score(state: Writing) -> State:
        return {"score": 7}

    return chain(Writing, report, score, input_schema=Topic)


@shape(
    "parallel nodes, and a judge that chooses by number",
    VALUES,
    "2",
    {"best": "cats at night"},
    streamed=("2",),
    rare=True,
)
def fan_out() -> Any:
    class Choosing(Topic):
        found: Annotated[list[str], operator.add]
        best: str

    def search(state: Any) -> State:
        return {"found": [f"cats at {state['time']}"]}

    async def judge(state: Choosing) -> State:
        number = int(str((await model_saying(["2"]).ainvoke("go")).text))
        return {"best": sorted(state["found"])[number - 1]}

    graph = StateGraph(Choosing, input_schema=Topic).add_node("search", search).add_node("judge", judge)
    graph.add_conditional_edges(
        START, lambda _: [Send("search", {"time": at}) for at in ("noon", "day", "night")], ["search"]
    )
    return graph.add_edge("search", "judge").add_edge("judge", END)


@shape(
    "parallel branches that end apart, one of them earlier",
    VALUES,
    "inner notes",
    {"report": "Report on cats", "score": 7},
    streamed=("inner notes",),
    rare=True,
)
def branches_that_end_apart() -> Any:
    def score(state: Writing) -> State:
        return {"score": 7}

    graph = StateGraph(Writing, input_schema=Topic)
    for node in (notes, report, score):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "score").add_edge("score", END)
    return graph.add_edge(START, "notes").add_edge("notes", "report").add_edge("report", END)


@shape(
    "a private value, whose key begins with `_`",
    VALUES,
    "inner notes",
    {"report": "Report on cats"},
    streamed=("inner notes",),
    rare=True,
)
def private_value() -> Any:
    class Tracing(Writing):
        _trace: str

    def write(state: Tracing) -> State:
        return {**report(state), "_trace": "secret"}

    return chain(Tracing, notes, write, input_schema=Topic)


@shape("values of more than 256 KiB", VALUES, "inner notes", streamed=("inner notes",), artifact="output")
def large_value() -> Any:
    def write(state: Writing) -> State:
        return {"report": "cats " * 60_000}

    return chain(Writing, notes, write, input_schema=Topic)


@shape(
    "an agent in a node, whose text is a value",
    VALUES,
    "Sunny.",
    before=("Let me look.",),
    streamed=("Let me look.", "Sunny."),
)
def agent_in_node() -> Any:
    async def ask(state: Writing) -> State:
        script = ["Let me look.", asks_for("weather", '{"city": "Rome"}')]
        agent = create_agent(model(script, ["Sunny."]), [weather])
        return {"report": (await agent.ainvoke({"messages": [HumanMessage("go")]}))["messages"][-1].text}

    return chain(Writing, ask, input_schema=Topic)


@shape(
    "streamed text, and a last node that returns its input with the text",
    VALUES,
    "All about cats",
    {"score": 7},
    streamed=("All about cats",),
    rare=True,
)
def input_returned() -> Any:
    async def write(state: Writing) -> State:
        text = (await model_saying(["All about ", "cats"]).ainvoke("go")).text
        return {"topic": state["topic"], "report": str(text), "score": 7}

    return chain(Writing, write, input_schema=Topic)


# ── States with messages ──────────────────────────────────────────────────────────────────────────────────────────────


def says(text: str) -> Any:
    def says(state: MessagesState) -> State:
        return {"messages": [AIMessage(text)]}

    says.__name__ = f"says_{len(text)}"
    return says


@shape(
    "a message in each node, without a model",
    MESSAGES,
    "Cats are fine.",
    before=("One moment.",),
    streamed=("One moment.",),
)
def message_in_each_node() -> Any:
    return chain(MessagesState, says("One moment."), says("Cats are fine."))


@shape(
    "a decision as structured output, a message, and a model's answer",
    MESSAGES,
    "Cats are fine.",
    before=("One moment.",),
    streamed=("One moment.", "Cats are fine."),
)
def structured_decision() -> Any:
    async def triage(state: MessagesState) -> State:
        asked = model_saying(['{"team": ', '"sales"}']).bind(response_format={"type": "json_object"})
        assert "sales" in str((await asked.ainvoke("go")).text)
        return {"messages": [AIMessage("One moment.")]}

    async def answer(state: MessagesState) -> State:
        return {"messages": [await model_saying(["Cats ", "are fine."]).ainvoke("go")]}

    return chain(MessagesState, triage, answer)


@shape("a call with the tag `nostream`, whose message is returned", MESSAGES, "Cats are fine.")
def untraced_call() -> Any:
    async def answer(state: MessagesState) -> State:
        quiet = model_saying(["Cats ", "are fine."]).with_config(tags=["nostream"])
        return {"messages": [await quiet.ainvoke("go")]}

    return chain(MessagesState, answer)


@shape(
    "a model's text, then `emit_message`, then another model's text",
    MESSAGES,
    "Cats are fine.",
    before=("Cats?", "Looking."),
    streamed=("Cats?", "Cats are fine."),
    rare=True,
)
def emission_between() -> Any:
    async def ask(state: MessagesState) -> State:
        return {"messages": [await model_saying(["Cats?"]).ainvoke("go")]}

    def look(state: MessagesState, writer: StreamWriter) -> State:
        emit_message(writer, AIMessage("Looking."))
        return {}

    async def answer(state: MessagesState) -> State:
        return {"messages": [await model_saying(["Cats ", "are fine."]).ainvoke("go")]}

    return chain(MessagesState, ask, look, answer)


class Finding(MessagesState):
    found: dict[str, int]


@shape("a model's answer, and a value beside it", MESSAGES, "Cats are fine.", streamed=("Cats are fine.",))
def value_beside_answer() -> Any:
    async def answer(state: Finding) -> State:
        return {"messages": [await model_saying(["Cats ", "are fine."]).ainvoke("go")], "found": {"cats": 2}}

    return chain(Finding, answer)


@shape(
    "streamed text that no node returns, and a value",
    MESSAGES,
    "Counting.",
    {"found": {"cats": 2}},
    streamed=("Counting.",),
)
def value_beside_streamed_text() -> Any:
    async def count(state: Finding) -> State:
        await model_saying(["Count", "ing."]).ainvoke("go")
        return {"found": {"cats": 2}}

    return chain(Finding, count)


@shape("a value, and no text", MESSAGES, {"found": {"cats": 2}})
def value_without_text() -> Any:
    def count(state: Finding) -> State:
        return {"found": {"cats": 2}}

    return chain(Finding, count)


class Routing(MessagesState):
    next: str


def supervised(worker: Any) -> Any:
    """Return a supervisor that notes its route in the state, with one worker."""

    def supervisor(state: Routing) -> Command[Literal["worker", "__end__"]]:
        route: Any = END if state["messages"][-1].name == "worker" else "worker"
        return Command(goto=route, update={"next": route})

    return StateGraph(Routing).add_node(supervisor).add_node("worker", worker).add_edge(START, "supervisor")


@shape(
    "a worker's streamed text as a `HumanMessage`, and its supervisor's route",
    MESSAGES,
    "Cats are fine.",
    streamed=("Cats are fine.",),
)
def worker_as_human() -> Any:
    async def worker(state: Routing) -> Command[Literal["supervisor"]]:
        text = (await model_saying(["Cats ", "are fine."]).ainvoke("go")).text
        return Command(goto="supervisor", update={"messages": [HumanMessage(str(text), name="worker")]})

    return supervised(worker)


@shape("a worker's result as a `HumanMessage`, without a model", MESSAGES, "Cats are fine.", rare=True)
def result_as_human() -> Any:
    def worker(state: Routing) -> Command[Literal["supervisor"]]:
        return Command(goto="supervisor", update={"messages": [HumanMessage("Cats are fine.", name="worker")]})

    return supervised(worker)


def calls(text: str) -> Any:
    def calls(state: MessagesState) -> State:
        return {"messages": [AIMessage(text, tool_calls=[{"name": "mail", "args": {}, "id": "1"}])]}

    return calls


def mail(state: MessagesState) -> State:
    return {"messages": [ToolMessage("mail was sent to ada", tool_call_id="1")]}


@shape("a tool's result at the end", MESSAGES, "mail was sent to ada")
def ends_with_tool() -> Any:
    return chain(MessagesState, calls(""), mail)


@shape(
    "a tool's result at the end, after words beside the call",
    MESSAGES,
    "mail was sent to ada",
    before=("I mail Ada.",),
)
def ends_with_tool_after_words() -> Any:
    return chain(MessagesState, calls("I mail Ada."), mail)


@shape(
    "a worker's result as a `HumanMessage`, after words beside its call",
    MESSAGES,
    "Ada has the mail.",
    before=("I mail Ada.",),
    rare=True,
)
def ends_with_human_after_words() -> Any:
    def reports(state: MessagesState) -> State:
        return {"messages": [HumanMessage("Ada has the mail.", name="worker")]}

    return chain(MessagesState, calls("I mail Ada."), mail, reports)


@shape("words beside a call that nothing follows", MESSAGES, "I mail Ada.", rare=True)
def ends_with_call() -> Any:
    return chain(MessagesState, calls("I mail Ada."))


@shape(
    "a model's answer that a node has put into a message of its own",
    MESSAGES,
    "Cats are fine.",
    streamed=("Cats are fine.\n",),
    rare=True,
)
def copied_answer() -> Any:
    async def answer(state: MessagesState) -> State:
        said = await model_saying(["Cats ", "are fine.\n"]).ainvoke("go")
        return {"messages": [AIMessage(str(said.text).strip())]}

    return chain(MessagesState, answer)


@shape(
    "an expert's text, then a hand-back to the supervisor",
    MESSAGES,
    "Cats are fine.",
    streamed=("Cats are fine.",),
    rare=True,
)
def hand_back() -> Any:
    back: State = {"__is_handoff_back": True}

    async def expert(state: MessagesState) -> State:
        call = {"name": "back", "args": {}, "id": "b"}
        said = await model_saying(["Cats ", "are fine."]).ainvoke("go")
        line = AIMessage("Transferring back to supervisor", tool_calls=[call], response_metadata=back)
        return {"messages": [said, line, ToolMessage("back", tool_call_id="b", response_metadata=back)]}

    return chain(MessagesState, expert)


# ── Functions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@shape("a text", FUNCTIONS, "Cats are fine.")
def returns_text() -> Any:
    @entrypoint()
    async def agent(given: Any) -> str:
        return "Cats are fine."

    return agent


@shape("the text of its model", FUNCTIONS, "Cats are fine.", streamed=("Cats are fine.",))
def returns_streamed_text() -> Any:
    @entrypoint()
    async def agent(given: Any) -> str:
        return str((await model_saying(["Cats ", "are fine."]).ainvoke("go")).text)

    return agent


@shape("a dict", FUNCTIONS, {"cats": 2})
def returns_dict() -> Any:
    @entrypoint()
    async def agent(given: Any) -> State:
        return {"cats": 2}

    return agent


@shape("messages", FUNCTIONS, "Cats are fine.", before=("One moment.",))
def returns_messages() -> Any:
    @entrypoint()
    async def agent(given: Any) -> list[Any]:
        return [*given["messages"], AIMessage("One moment."), AIMessage("Cats are fine.")]

    return agent


@shape("messages that end with a tool's result", FUNCTIONS, "mail was sent to ada", rare=True)
def returns_tool_result() -> Any:
    @entrypoint()
    async def agent(given: Any) -> list[Any]:
        state: Any = {}
        return [*given["messages"], *calls("")(state)["messages"], *mail(state)["messages"]]

    return agent


# ── Page ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def rendered(each: Any) -> str:
    """Return a text in italics, or the JSON of a data part as code."""
    return f"*{each}*" if isinstance(each, str) else f"`{json.dumps(each)}`"


def rows(section: str) -> Iterator[str]:
    yield "| The graph has | streamed | messages before the answer | answer |"
    yield "| --- | --- | --- | --- |"
    for description, each in SHAPES.items():
        if each.section == section and not each.rare:
            answer = [*map(rendered, each.answer), *([f"artifact *{each.artifact}*"] if each.artifact else [])]
            cells = (each.streamed, each.before)
            told = [", ".join(map(rendered, texts)) or "–" for texts in cells]
            yield f"| {description} | {told[0]} | {told[1]} | {' and '.join(answer)} |"


def page_with_tables(page: str) -> str:
    """Return the page with the table of each section in place of its old one."""
    for section in dict.fromkeys(each.section for each in SHAPES.values()):
        table = "\n".join(rows(section))
        found = re.search(rf"^## {re.escape(section)}\n.*?(^\| .*?\n)(?!\|)", page, re.MULTILINE | re.DOTALL)
        assert found is not None, f"{PAGE.name} has no table below the heading {section!r}."
        page = f"{page[: found.start(1)]}{table}\n{page[found.end(1) :]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
