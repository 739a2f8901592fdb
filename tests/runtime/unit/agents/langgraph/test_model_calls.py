"""Model calls that are not for the client: decisions as structured output, and calls of tools and middleware."""

from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, after_agent, before_model
from langchain.agents.structured_output import ProviderStrategy
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser, StrOutputParser
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from aion_core.agents.langgraph.model_calls import is_for_client
from tests.runtime.golden.graphs import ScriptedModel, asks_for, in_a_row
from tests.runtime.unit.agents.folding import fold, text_of
from tests.runtime.unit.agents.langgraph.usual_agents import model, weather
from tests.support.histories import json_before_status
from tests.support.rows import each_row
from tests.support.service import http, parts, send

State = dict[str, Any]


class Report(BaseModel):
    city: str


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}

ANY_GRAPH = in_a_row(lambda state: {})

JSON_REQUESTS: dict[str, State] = {
    "OpenAI's JSON mode": {"response_format": {"type": "json_object"}},
    "OpenAI's schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": SCHEMA}}},
    "a class": {"response_format": Report},
    "OpenAI's Responses API": {"text": {"format": {"type": "json_schema", "name": "r", "schema": SCHEMA}}},
    "Gemini's media type": {"response_mime_type": "application/json"},
    "Gemini's enum": {"response_mime_type": "text/x.enum"},
    "Gemini's schema": {"response_schema": SCHEMA},
    "Gemini's JSON Schema": {"response_json_schema": SCHEMA},
    "Ollama's JSON mode": {"format": "json"},
    "Ollama's schema": {"format": SCHEMA},
    "Anthropic's output": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "Anthropic's earlier output": {"output_format": {"type": "json_schema", "schema": SCHEMA}},
}
"""Parameters of providers' APIs that demand JSON."""

TEXT_REQUESTS: dict[str, State] = {
    "no format": {"model": "m", "response_format": None, "format": "", "response_mime_type": None},
    "OpenAI's text": {"response_format": {"type": "text"}, "text": {"format": {"type": "text"}, "verbosity": "low"}},
    "Gemini's text": {"response_mime_type": "text/plain"},
    "Anthropic's effort": {"output_config": {"effort": "high"}},
    "OpenAI's audio": {"audio": {"format": "wav", "voice": "alloy"}, "output_format": "mp3"},
}


@each_row("name", JSON_REQUESTS)
def test_call_whose_provider_must_return_json_is_not_for_client(name: str) -> None:
    asked = {"options": {}, "invocation_params": JSON_REQUESTS[name]}
    assert not is_for_client(ANY_GRAPH, tags=[], metadata={"langgraph_checkpoint_ns": "node:1"}, parameters=asked)


@each_row("name", TEXT_REQUESTS)
def test_call_for_text_is_for_client(name: str) -> None:
    asked = {"options": {}, "invocation_params": TEXT_REQUESTS[name]}
    assert is_for_client(ANY_GRAPH, tags=[], metadata={"langgraph_checkpoint_ns": "node:1"}, parameters=asked)


@each_row(
    ("tags", "metadata", "options"),
    [
        (["nostream"], {}, {}),
        ([], {"lc_source": "summarization"}, {}),
        ([], {"lc_internal_call": True}, {}),
        ([], {"langgraph_node": "Guard.before_model"}, {}),
        ([], {"langgraph_node": "Guard.after_agent"}, {}),
        ([], {}, {"ls_structured_output_format": {"kwargs": {"method": "json_schema"}, "schema": SCHEMA}}),
    ],
)
def test_marked_call_is_not_for_client(tags: list[str], metadata: State, options: State) -> None:
    assert not is_for_client(ANY_GRAPH, tags=tags, metadata=metadata, parameters={"options": options})


class BindingModel(ScriptedModel):
    """Model that passes the parameters of its provider on."""

    def bind_tools(self, tools: Any, **parameters: Any) -> Any:
        return self.bind(**parameters)


def provider_agent(text: str) -> Any:
    return create_agent(BindingModel(scripts=[[text]]), [], response_format=ProviderStrategy(Report))


async def told(graph: Any) -> tuple[list[str], list[str]]:
    """Return the texts of the agent's messages, and the streamed texts."""
    async with http(parts(graph).app()) as client:
        folded = fold((await client.post("/", json=send(method="SendStreamingMessage"))).text)
    return [text_of(each) for each in folded.messages.values()], folded.texts


async def test_json_of_provider_strategy_is_streamed_by_agent_that_answers() -> None:
    """The agent is the served graph, or a node of it."""
    as_node = StateGraph(MessagesState).add_node("agent", provider_agent('{"city": "Rome"}')).add_edge(START, "agent")
    for graph in (provider_agent('{"city": "Rome"}'), as_node):
        assert await told(graph) == (['{"city": "Rome"}'], ['{"city": "Rome"}'])


async def test_json_of_agent_called_by_node_is_not_shown() -> None:
    judge, writer = provider_agent('{"city": "Rome"}'), model(["It is Rome."])

    async def decide(state: MessagesState) -> State:
        decision = await judge.ainvoke({"messages": [HumanMessage("Which city?")]})
        assert decision["structured_response"] == Report(city="Rome")
        return {"messages": [await writer.ainvoke("Write.")]}

    assert await told(in_a_row(decide, state=MessagesState)) == (["It is Rome."], ["It is Rome."])


class Upper(StrOutputParser):
    def parse(self, text: str) -> str:
        return text.upper()


ROUTE = '{"city": "Rome"}'
PARSERS: dict[str, tuple[Any, list[str]]] = {
    "PydanticOutputParser": (PydanticOutputParser(pydantic_object=Report), []),
    "JsonOutputParser": (JsonOutputParser(), []),
    "StrOutputParser": (StrOutputParser(), [ROUTE]),
    "own parser of texts": (Upper(), [ROUTE]),
    "own function": (RunnableLambda(lambda message: message.text), [ROUTE]),
}
"""Steps after a model in a chain, and the texts of the model that are messages to the client."""


@each_row("is_async", [True, False])
@each_row("name", PARSERS)
async def test_text_that_a_parser_reads_is_no_message(name: str, is_async: bool) -> None:
    parser, shown = PARSERS[name]
    router = GenericFakeChatModel(messages=iter([ROUTE])) | parser

    async def decide(state: MessagesState) -> State:
        await router.ainvoke("Which city?")
        return {"messages": [await model(["It is Rome."]).ainvoke("Write.")]}

    def decide_in_thread(state: MessagesState) -> State:
        router.invoke("Which city?")
        return {"messages": [AIMessage("It is Rome.")]}

    messages, _ = await told(in_a_row(decide if is_async else decide_in_thread, state=MessagesState))
    assert messages == [*shown, "It is Rome."]


async def test_data_of_a_parser_is_the_answer() -> None:
    class Found(TypedDict):
        query: str
        found: dict[str, str]

    async def find(state: Found) -> State:
        return {"found": await (model([ROUTE]) | JsonOutputParser()).ainvoke("Which city?")}

    async with http(parts(in_a_row(find, state=Found)).app()) as client:
        task = (await client.post("/", json=send())).json()["result"]["task"]
    assert task["status"]["message"]["parts"] == [{"data": {"found": {"city": "Rome"}}}]
    assert len(json_before_status(task)) == 1


async def test_parsed_message_that_a_node_returns_is_said() -> None:
    async def judge(state: MessagesState) -> State:
        message = await model([ROUTE]).ainvoke("Which city?")
        await JsonOutputParser().ainvoke(message)
        return {"messages": [message]}

    assert (await told(in_a_row(judge, state=MessagesState)))[0] == [ROUTE]


class Checking(AgentMiddleware[Any, Any]):
    """Middleware that lets a model check the arguments of each tool call."""

    def __init__(self, checker: Any) -> None:
        super().__init__()
        self._checker = checker

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        assert (await self._checker.ainvoke("Is it safe?")).text == "SECRET check."
        return await handler(request)


async def test_calls_of_own_middleware_are_not_shown() -> None:
    judge = model(["SECRET judgement."], ["SECRET judgement."], ["SECRET end."])

    @before_model
    async def judges(state: Any, runtime: Any) -> None:
        await judge.ainvoke("Judge.")

    @after_agent
    async def closes(state: Any, runtime: Any) -> None:
        await judge.ainvoke("Close.")

    agent = create_agent(
        model(["Let me look.", asks_for("weather", '{"city": "Rome"}')], ["Sunny."]),
        [weather],
        middleware=[judges, closes, Checking(model(["SECRET ", "check."]))],
    )
    assert await told(agent) == (["Let me look.", "Sunny."], ["Let me look.", "Sunny."])
