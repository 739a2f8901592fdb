"""Graphs with the models of real providers' packages, whose APIs a local server stands in for.

A decision of a model as structured output is neither streamed nor recorded, with any provider and any of its forms. Each
message that a node adds to the state reaches the client, whether its model streams or not.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from tests.runtime.golden.graphs import in_a_row
from tests.runtime.unit.agents.folding import fold, text_of
from tests.runtime.unit.agents.langgraph.providers import APIS, BOUND, METHODS, ROUTED, TEXT
from tests.runtime.unit.agents.usual_agents import METHODS as REQUESTS
from tests.support.histories import json_messages_of
from tests.support.listening import listening
from tests.support.service import http, parts, send

State = dict[str, Any]
Decide = Callable[[str], Any]


class Decision(BaseModel):
    team: str
    note: str


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with listening(APIS) as found:
        yield found


FORMS = [(provider, form) for provider, methods in METHODS.items() for form in (*methods, "bound", "nostream")]
"""Each provider with each form in which its API is asked for JSON; `nostream` is a plain call with LangGraph's tag."""

IN_MAKE_TEST = {("openai", "json_schema"), ("gemini", "bound"), ("ollama", "json_mode")}
"""Forms in v1 and streamed, the first with each graph. All others run in `make test-deep`: the import of
langchain-anthropic takes three seconds."""


STREAMS_ANYWAY = {"ollama"}
"""Providers whose package reports tokens although `disable_streaming` is set."""


def rows() -> Iterator[Any]:
    for (provider, form), shape, streams in product(FORMS, GRAPHS, (True, False)):
        for version, requests in REQUESTS.items():
            for number, request in enumerate(requests):
                near = (provider, form) in IN_MAKE_TEST and streams and version == "v1" and number == 1
                near = near and (shape == "messages" or form == "json_schema")
                name = f"{shape}-{provider}-{form}-{'streaming' if streams else 'whole'}-{request}"
                marks = [] if near else [pytest.mark.deep]
                yield pytest.param(shape, provider, form, streams, request, marks=marks, id=name)


def decides_by(model: BaseChatModel, form: str, bound: State) -> Decide:
    """Return a function that lets the model decide in this form, and returns its note."""

    async def decide(question: str) -> str:
        if form == "nostream":
            return str((await model.with_config(tags=["nostream"]).ainvoke(question)).text)
        if form == "bound":
            return Decision.model_validate_json((await model.bind(**bound).ainvoke(question)).text).note
        decision: Any = await model.with_structured_output(Decision, method=form).ainvoke(question)
        return str(decision.note)

    return decide


def moment(note: str) -> AIMessage:
    return AIMessage(f"One moment: {note}.")


def triage_and_answer(model: BaseChatModel, decide: Decide) -> Any:
    async def triage(state: MessagesState) -> State:
        return {"messages": [moment(await decide("Which team?"))]}

    async def answer(state: MessagesState) -> State:
        return {"messages": [await model.ainvoke("Hi")]}

    return in_a_row(triage, answer, state=MessagesState)


def router(model: BaseChatModel, decide: Decide) -> Any:
    async def route(state: MessagesState) -> str:
        return "answer" if await decide("Which team?") else "other"

    async def answer(state: MessagesState) -> State:
        return {"messages": [await model.ainvoke("Hi")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_node("other", lambda state: {})
    return graph.add_conditional_edges(START, route, ["answer", "other"])


class Report(TypedDict):
    report: str


class Draft(Report):
    topic: str
    note: str


def declared_output(model: BaseChatModel, decide: Decide) -> Any:
    async def triage(state: Draft) -> State:
        return {"note": await decide("Which team?")}

    async def write(state: Draft) -> State:
        return {"report": str((await model.ainvoke("Hi")).text)}

    graph = StateGraph(Draft, output_schema=Report).add_node("triage", triage).add_node("write", write)
    return graph.add_edge(START, "triage").add_edge("triage", "write")


def subgraph(model: BaseChatModel, decide: Decide) -> Any:
    inner = triage_and_answer(model, decide)
    return StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner")


def function(model: BaseChatModel, decide: Decide) -> Any:
    @entrypoint()
    async def answer(given: State) -> list[Any]:
        return [moment(await decide("Which team?")), await model.ainvoke("Hi")]

    return answer


GRAPHS: dict[str, Callable[[BaseChatModel, Decide], Any]] = {
    "messages": triage_and_answer,
    "router": router,
    "declared output": declared_output,
    "subgraph": subgraph,
    "function": function,
}
"""Graphs in which a model decides, and then answers."""

SILENT = ("router", "declared output")
"""Graphs that add no message beside the answer."""


async def told(graph: Any, request: str) -> tuple[list[str], list[str]]:
    """Return the texts of the agent's messages, and the streamed texts."""
    async with http(parts(graph).app()) as client:
        answer = await client.post("/", json=send(method=request))
    if "tream" in request:
        folded = fold(answer.text)
        return [text_of(each) for each in folded.messages.values()], folded.texts
    result = answer.json()["result"]
    task = result.get("task", result)
    return [each["parts"][0]["text"] for each in json_messages_of(task) if each["role"] in ("agent", "ROLE_AGENT")], []


def is_streamed(provider: str, streams: bool, request: str) -> bool:
    return (streams or provider in STREAMS_ANYWAY) and "tream" in request


@pytest.mark.parametrize(("shape", "provider", "form", "streams", "request_method"), [*rows()])
async def test_decision_of_model_is_not_shown(
    shape: str, provider: str, form: str, streams: bool, request_method: str, url: str
) -> None:
    make, bound = BOUND[provider]
    model = make(url, **({} if streams else {"disable_streaming": True}))
    note = "soon" if form != "nostream" else "".join(TEXT)
    messages, streamed = await told(GRAPHS[shape](model, decides_by(model, form, bound)), request_method)
    before = [] if shape in SILENT else [f"One moment: {note}."]
    assert messages == [*before, "".join(TEXT)]
    # A message of the main graph does not wait for the next node to end.
    waiting = before if shape == "messages" and "tream" in request_method else []
    assert streamed == [*waiting, *(["".join(TEXT)] if is_streamed(provider, streams, request_method) else [])]


@pytest.mark.deep
@pytest.mark.parametrize("streams", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("request_method", [each for requests in REQUESTS.values() for each in requests])
@pytest.mark.parametrize("provider", BOUND)
async def test_final_answer_of_provider_strategy_is_shown(
    provider: str, request_method: str, streams: bool, url: str
) -> None:
    make, _ = BOUND[provider]
    model = make(url, **({} if streams else {"disable_streaming": True}))
    agent = create_agent(model, [], response_format=ProviderStrategy(Decision))
    messages, streamed = await told(agent, request_method)
    assert messages == [ROUTED]
    assert streamed == ([ROUTED] if is_streamed(provider, streams, request_method) else [])
