"""Prebuilt LangChain agents as people write them, with the expected answers. `docs/agents.md` lists these agents."""

import base64
from typing import Annotated, Any

import httpx
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
    after_agent,
    before_model,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import InjectedToolCallId, ToolRuntime
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.tools import StructuredTool, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel, SecretStr

from tests.runtime.golden.graphs import ScriptedModel, asks_for
from tests.runtime.unit.agents.usual_agents import PNG, Cases, UsualTurn

CASES = Cases()
case = CASES.add


class UsualModel(ScriptedModel):
    """Model that accepts tools."""

    def bind_tools(self, tools: Any, **_: Any) -> "UsualModel":
        return self


def model(*scripts: list[Any]) -> UsualModel:
    return UsualModel(scripts=[list(script) for script in scripts])


def both(*calls: tuple[str, str]) -> AIMessageChunk:
    chunks = [
        tool_call_chunk(name=name, args=args, id=f"call-{index}", index=index)
        for index, (name, args) in enumerate(calls)
    ]
    return AIMessageChunk(content="", tool_call_chunks=chunks)


@tool
def weather(city: str) -> str:
    """Return the weather in a city."""
    return f"sunny in {city}; station key 4711"


class Report(BaseModel):
    """Structured answer."""

    city: str
    degrees: int


# ── Models and tools ──────────────────────────────────────────────────────────────────────────────────────────────────


@case("create_agent", UsualTurn(answer="Hello there."))
def plain() -> Any:
    return create_agent(model(["Hello ", "there."]), [])


@case("create_agent with tools", UsualTurn(answer="Sunny.", before=("Let me look.",)))
def with_tools() -> Any:
    return create_agent(model(["Let me ", "look.", asks_for("weather", '{"city": "Rome"}')], ["Sunny."]), [weather])


@case("create_agent with parallel tool calls", UsualTurn(answer="Sunny in both."))
def with_parallel_calls() -> Any:
    calls = both(("weather", '{"city": "Rome"}'), ("weather", '{"city": "Oslo"}'))
    return create_agent(model([calls], ["Sunny in ", "both."]), [weather])


@case("ToolStrategy", UsualTurn(answer="", parts=({"city": "Rome"},)))
def tool_strategy() -> Any:
    script = [asks_for("Report", '{"city": "Rome", "degrees": 21}')]
    return create_agent(model(script), [], response_format=ToolStrategy(Report))


@case("ProviderStrategy", UsualTurn(answer='{"city": "Rome", "degrees": 21}', parts=({"city": "Rome"},)))
def provider_strategy() -> Any:
    return create_agent(model(['{"city": "Rome", ', '"degrees": 21}']), [], response_format=ProviderStrategy(Report))


@case(
    "Structured output in each turn",
    UsualTurn(answer="", parts=({"city": "Rome"},)),
    UsualTurn(answer="", parts=({"city": "Rome"},)),
)
def structured_again() -> Any:
    script = [asks_for("Report", '{"city": "Rome", "degrees": 21}')]
    return create_agent(model(script, script), [], response_format=ToolStrategy(Report))


@case("return_direct", UsualTurn(answer="sunny in Rome"))
def return_direct() -> Any:
    @tool(return_direct=True)
    def direct(city: str) -> str:
        """Return the weather in a city."""
        return f"sunny in {city}"

    return create_agent(model([asks_for("direct", '{"city": "Rome"}')]), [direct])


IMAGE = {"type": "image", "base64": base64.b64encode(PNG).decode(), "mime_type": "image/png"}


@case("Model that draws", UsualTurn(answer="A map.", parts=({"raw": PNG, "mediaType": "image/png"},)))
def drawing() -> Any:
    return create_agent(model([AIMessageChunk(content=[{"type": "text", "text": "A map."}, IMAGE])]), [])


@case("Model that only draws", UsualTurn(answer="", parts=({"raw": PNG, "mediaType": "image/png"},)))
def only_drawing() -> Any:
    return create_agent(model([AIMessageChunk(content=[IMAGE])]), [])


WAV = b"RIFF\x24\x00\x00\x00WAVE"


def openai_speaks(request: httpx.Request) -> httpx.Response:
    """Answer as OpenAI's API answers a request for `modalities: [text, audio]`."""
    audio = {"id": "audio-1", "data": base64.b64encode(WAV).decode(), "expires_at": 1, "transcript": "By train."}
    message = {"role": "assistant", "content": None, "refusal": None, "audio": audio}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-audio", "choices": [choice]}
    return httpx.Response(200, json=body)


@case("Model that speaks", UsualTurn(answer="By train.", parts=({"raw": WAV, "mediaType": "audio/wav"},)))
def speaking() -> Any:
    # Import late, because this import takes long.
    from langchain_openai import ChatOpenAI

    openai = httpx.AsyncClient(transport=httpx.MockTransport(openai_speaks))
    audio = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    chat = ChatOpenAI(
        model="gpt-audio", api_key=SecretStr("k"), http_async_client=openai, model_kwargs=audio, disable_streaming=True
    )
    return create_agent(chat, [])


class Describing(UsualModel):
    """Model that answers with the types of the content blocks that it receives."""

    def _next_script(self) -> Any:
        yield AIMessageChunk(content="")

    async def _astream(self, messages: Any, *_: Any, **options: Any) -> Any:
        content = messages[-1].content
        kinds = ["text"] if isinstance(content, str) else [block["type"] for block in content]
        self.scripts = [[", ".join(kinds)]]
        async for chunk in ScriptedModel._astream(Spoken(scripts=self.scripts), messages, *_, **options):
            yield chunk


class Spoken(ScriptedModel):
    """Model that streams one fixed script."""


FILES: tuple[Any, ...] = (
    "Look: ",
    {"raw": PNG, "mediaType": "image/png", "filename": "map.png"},
    {"url": "https://example.com/a.mp3", "mediaType": "audio/mpeg"},
    {"raw": b"%PDF", "mediaType": "application/pdf", "filename": "a.pdf"},
    {"raw": b"# Notes", "mediaType": "text/markdown", "filename": "a.md"},
    {"data": {"degrees": 21}},
)


@case("create_agent that receives files", UsualTurn(sent=FILES, answer="text, image, audio, file, text, text"))
def receiving() -> Any:
    return create_agent(Describing(scripts=[]), [])


@case("Model that thinks", UsualTurn(answer="Rome."))
def thinking() -> Any:
    thought = AIMessageChunk(content=[{"type": "reasoning", "reasoning": "secret"}])
    return create_agent(model([thought, AIMessageChunk(content=[{"type": "text", "text": "Rome."}])]), [])


@case("MCP tools", UsualTurn(answer="Sunny."))
def mcp_tools() -> Any:
    """Tools in the form that langchain-mcp-adapters returns."""

    async def call(city: str) -> tuple[Any, Any]:
        return [{"type": "text", "text": f"sunny in {city}"}], {"structured_content": {"city": city}}

    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    found = StructuredTool(
        name="forecast",
        description="Return the forecast.",
        args_schema=schema,
        coroutine=call,
        response_format="content_and_artifact",
    )
    return create_agent(model([asks_for("forecast", '{"city": "Rome"}')], ["Sunny."]), [found])


@case("Tool that fails", UsualTurn(state="FAILED", answer="ValueError: the agent could not finish this turn."))
def failing_tool() -> Any:
    @tool
    def broken() -> str:
        """Raise an error."""
        raise ValueError("the password is hunter2")

    return create_agent(model([asks_for("broken", "{}")]), [broken])


@case("Tool that returns a Command", UsualTurn(answer="Noted: Rome."))
def command_tool() -> Any:
    class Noting(AgentState[Any]):
        city: str

    @tool
    def note(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Note a city."""
        return Command(update={"city": city, "messages": [ToolMessage("noted", tool_call_id=tool_call_id)]})

    return create_agent(model([asks_for("note", '{"city": "Rome"}')], ["Noted: Rome."]), [note], state_schema=Noting)


@case("Tool with ToolRuntime", UsualTurn(answer="Done.", artifacts={}))
def runtime_tool() -> Any:
    @tool
    def count(runtime: ToolRuntime) -> str:
        """Count the messages."""
        return str(len(runtime.state["messages"]))

    return create_agent(model([asks_for("count", "{}")], ["Done."]), [count])


@case("Agent as a tool", UsualTurn(answer="The researcher agrees."))
def agent_in_tool() -> Any:
    researcher: Any = create_agent(model(["private ", "musing"]), [])

    @tool
    async def research(topic: str) -> str:
        """Ask the researcher."""
        result = await researcher.ainvoke({"messages": [("user", topic)]})
        return str(result["messages"][-1].text)

    return create_agent(model([asks_for("research", '{"topic": "Rome"}')], ["The researcher ", "agrees."]), [research])


# ── Middleware ────────────────────────────────────────────────────────────────────────────────────────────────────────


def pay_agent(*scripts: list[Any]) -> Any:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return create_agent(model(*scripts), [pay], middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})])


MAY = "May the agent call pay(amount=7)? Answer approve, edit, reject or respond."


@case(
    "HumanInTheLoopMiddleware",
    UsualTurn(state="INPUT_REQUIRED", answer=MAY, before=("I would pay.",), parts=({"action_requests": []},)),
    UsualTurn(sent=("approve",), answer="Paid."),
)
def reviewed() -> Any:
    return pay_agent(["I would pay.", asks_for("pay", '{"amount": 7}')], ["Paid."])


@case(
    "Tool call rejected by the client",
    UsualTurn(state="INPUT_REQUIRED", answer=MAY, parts=({"action_requests": []},)),
    UsualTurn(sent=("reject: not today",), answer="Not paid."),
)
def rejected() -> Any:
    return pay_agent([asks_for("pay", '{"amount": 7}')], ["Not paid."])


@case(
    "Tool call edited by the client",
    UsualTurn(state="INPUT_REQUIRED", answer=MAY, parts=({"action_requests": []},)),
    UsualTurn(
        sent=(
            {
                "data": {
                    "decisions": [{"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 5}}}],
                }
            },
        ),
        answer="Paid five.",
    ),
)
def edited() -> Any:
    return pay_agent([asks_for("pay", '{"amount": 7}')], ["Paid five."])


@case("SummarizationMiddleware", UsualTurn(answer="Hello."), UsualTurn(answer="Again."))
def summarizing() -> Any:
    summaries = SummarizationMiddleware(model(["a summary"]), trigger=("messages", 3), keep=("messages", 1))
    return create_agent(model(["Hello."], ["Again."]), [], middleware=[summaries])


@case("ModelCallLimitMiddleware", UsualTurn(answer="Model call limits exceeded: run limit (1/1)", before=("Looking.",)))
def limited() -> Any:
    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="end")
    return create_agent(model(["Looking.", asks_for("weather", '{"city": "Rome"}')]), [weather], middleware=[limit])


@case("before_model that ends the turn", UsualTurn(answer="We are closed."))
def guarded() -> Any:
    @before_model(can_jump_to=["end"])
    def closed(state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("We are closed.")], "jump_to": "end"}

    return create_agent(model(["never"]), [], middleware=[closed])


@case("after_agent that rewrites", UsualTurn(answer="Hello, human.", streamed=("Hello.",)))
def rewriting() -> Any:
    @after_agent
    def polite(state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [AIMessage("Hello, human.", id=state["messages"][-1].id)]}

    return create_agent(model(["Hello."]), [], middleware=[polite])


@case("Middleware with state", UsualTurn(answer="Hello."))
def counting() -> Any:
    class Counted(AgentState[Any]):
        calls: int

    class Counting(AgentMiddleware[Any, Any]):
        state_schema = Counted

        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"calls": state.get("calls", 0) + 1}

    return create_agent(model(["Hello."]), [], middleware=[Counting()])


@case(
    "Tool that asks",
    UsualTurn(state="INPUT_REQUIRED", answer="Which seat?"),
    UsualTurn(sent=("by the window",), answer="Booked."),
)
def asking_tool() -> Any:
    @tool
    def book() -> str:
        """Book a seat."""
        return f"booked {interrupt('Which seat?')}"

    return create_agent(model([asks_for("book", "{}")], ["Booked."]), [book])


# ── Several agents ────────────────────────────────────────────────────────────────────────────────────────────────────


def handoff_to(name: str) -> Any:
    """Return a handoff tool as that of langgraph-swarm."""

    @tool(f"transfer_to_{name}")
    def handoff(state: Annotated[Any, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand the conversation over to another agent."""
        message = ToolMessage(f"Transferred to {name}.", name=f"transfer_to_{name}", tool_call_id=tool_call_id)
        messages = [*state["messages"], message]
        return Command(goto=name, graph=Command.PARENT, update={"messages": messages, "active_agent": name})

    return handoff
