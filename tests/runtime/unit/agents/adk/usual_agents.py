"""ADK agents as people write them, with the expected answers. `docs/agents.md` lists these agents."""

from collections.abc import AsyncGenerator
from typing import Any

from a2a.types import Part
from fastapi.openapi.models import APIKey
from google.adk import Workflow
from google.adk.agents import BaseAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.apps import App
from google.adk.auth import AuthConfig
from google.adk.events import Event, EventActions, RequestInput
from google.adk.models.llm_response import LlmResponse
from google.adk.planners import PlanReActPlanner
from google.adk.plugins import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types as genai
from pydantic import BaseModel

from aion.adk import get_aion_context
from aion.shared.types import A2AOutbox
from tests.runtime.unit.agents.usual_agents import PNG, Cases, UsualTurn
from tests.support.adk import call, content, llm_agent, text_event, texts, yielding_agent

CASES = Cases()
case = CASES.add


# ── Agents with a model ───────────────────────────────────────────────────────────────────────────────────────────────


@case("LlmAgent", UsualTurn(answer="Hello there."))
def plain() -> Any:
    return llm_agent(["Hello ", "there."])


def weather(city: str) -> str:
    """Return the weather."""
    return f"sunny in {city}"


@case("LlmAgent with tools", UsualTurn(answer="Sunny in both.", before=("Let me look.",)))
def with_tools() -> Any:
    calls = [call("weather", city="Rome"), call("weather", city="Oslo")]
    return llm_agent(["Let me ", "look.", *calls], ["Sunny in both."], tools=[weather])


class AdkReport(BaseModel):
    """Structured answer."""

    title: str
    pages: int


@case("LlmAgent with output_schema", UsualTurn(answer='{"title": "Rome", "pages": 3}'))
def structured() -> Any:
    return llm_agent(['{"title": "Rome", ', '"pages": 3}'], output_schema=AdkReport)


@case("LlmAgent with a planner", UsualTurn(answer="Done."))
def with_planner() -> Any:
    """The model streams its plan and its answer as one text; ADK marks the plan as a thought in the whole text only."""
    return llm_agent(["/*PLANNING*/ First ", "the plan. ", "/*FINAL_ANSWER*/", "Done."], planner=PlanReActPlanner())


@case(
    "LlmAgent with code execution", UsualTurn(answer="It is 4.", parts=({"executableCode": "2 + 2"}, {"output": "4"}))
)
def with_code() -> Any:
    code = genai.Part(executable_code=genai.ExecutableCode(code="2 + 2", language=genai.Language.PYTHON))
    result = genai.Part(code_execution_result=genai.CodeExecutionResult(output="4", outcome=genai.Outcome.OUTCOME_OK))
    return llm_agent([LlmResponse(content=content(code, result, genai.Part(text="It is 4.")))])


@case(
    "LlmAgent that draws",
    UsualTurn(answer="A cat.", parts=({"raw": PNG, "mediaType": "image/png"},)),
)
def draws() -> Any:
    return llm_agent(["A cat.", genai.Part.from_bytes(data=PNG, mime_type="image/png")])


def received(request: Any) -> LlmResponse:
    """Answer with the kinds of the parts that the model receives."""
    kinds = []
    for part in request.contents[-1].parts:
        file = part.inline_data or part.file_data
        kinds.append(file.mime_type if file else part.text)
    return LlmResponse(content=content(genai.Part(text=", ".join(kinds))))


@case(
    "LlmAgent that receives files",
    UsualTurn(
        sent=(
            "Look",
            {"raw": PNG, "mediaType": "image/png"},
            {"url": "https://test/a.wav", "mediaType": "audio/wav"},
            {"data": {"n": 1}},
        ),
        answer='Look, image/png, audio/wav, {"n": 1}',
    ),
)
def receives() -> Any:
    return llm_agent([received])


@case("LlmAgent stopped by its model", UsualTurn(state="FAILED", answer="The model gave no answer: SAFETY."))
def stopped() -> Any:
    return llm_agent([LlmResponse(error_code="SAFETY", error_message="internal")])


# ── Several agents ────────────────────────────────────────────────────────────────────────────────────────────────────


@case("SequentialAgent", UsualTurn(answer="Better: A poem.", before=("A poem.",)))
def sequential() -> Any:
    writer = llm_agent(["A poem."], name="writer", output_key="poem")
    critic = llm_agent([improved], name="critic", instruction="Improve {poem}")
    return SequentialAgent(name="root", sub_agents=[writer, critic])


def improved(request: Any) -> LlmResponse:
    poem = request.config.system_instruction.rpartition("Improve ")[2].splitlines()[0]
    return LlmResponse(content=content(genai.Part(text=f"Better: {poem}")))


@case("ParallelAgent", UsualTurn(answer="Both are fine.", before=("Rome is warm.", "Oslo is cold.")))
def parallel() -> Any:
    told = {"rome": "Rome is warm.", "oslo": "Oslo is cold."}
    cities: list[BaseAgent] = [llm_agent([text], name=name) for name, text in told.items()]
    merge = llm_agent(["Both ", "are fine."], name="merge")
    return SequentialAgent(name="root", sub_agents=[ParallelAgent(name="cities", sub_agents=cities), merge])


@case("LoopAgent", UsualTurn(answer="Good enough.", before=("Draft 1.", "Draft 2.")))
def loop() -> Any:
    stop = ["Good enough.", call("exit_loop")]
    drafts = llm_agent(["Draft 1."], ["Draft 2."], stop, name="drafts", tools=[exit_loop])
    return LoopAgent(name="root", sub_agents=[drafts], max_iterations=5)


@case("Transfer to a sub-agent", UsualTurn(answer="I bill you.", before=("One moment.",)))
def transfer() -> Any:
    billing = llm_agent(["I bill ", "you."], name="billing", description="Bills.")
    move = call("transfer_to_agent", agent_name="billing")
    return llm_agent(["One moment.", move], name="root", sub_agents=[billing])


@case("AgentTool", UsualTurn(answer="The expert agrees."))
def agent_tool() -> Any:
    expert = llm_agent(["Private words."], name="expert", description="Knows.")
    return llm_agent([call("expert", request="Is it so?")], ["The expert agrees."], tools=[AgentTool(agent=expert)])


@case("Workflow", UsualTurn(answer="HI THERE"))
def workflow() -> Any:
    def greet(node_input: str) -> str:
        return "hi there"

    def shout(node_input: str) -> str:
        return node_input.upper()

    return Workflow(name="root", edges=[("START", greet, shout)])


@case(
    "Workflow that asks",
    UsualTurn(state="INPUT_REQUIRED", answer="Which day?"),
    UsualTurn(sent=("Tuesday",), answer="Booked for Tuesday."),
)
def asking_workflow() -> Any:
    async def ask(node_input: Any) -> AsyncGenerator[Any, None]:
        yield RequestInput(message="Which day?", response_schema=None)

    def book(node_input: Any) -> str:
        day = node_input["result"] if isinstance(node_input, dict) else node_input
        return f"Booked for {day}."

    return Workflow(name="root", edges=[("START", ask, book)])


# ── Custom agents, callbacks and plugins ──────────────────────────────────────────────────────────────────────────────


@case("Custom BaseAgent", UsualTurn(answer="Two.", before=("One.",)))
def custom() -> Any:
    return yielding_agent(text_event("One."), text_event("Tw", partial=True), text_event("o.", partial=True))


@case("BaseAgent without an answer", UsualTurn(answer=None))
def silent() -> Any:
    return yielding_agent(text_event(state_delta={"done": True}))


@case("BaseAgent with an outbox", UsualTurn(answer="It is done."))
def outbox() -> Any:
    from a2a.types import Message, Role

    done = Message(role=Role.ROLE_AGENT, parts=[Part(text="It is done.")])
    return yielding_agent(text_event("Not this.", state_delta={"a2a_outbox": A2AOutbox(message=done)}))


@case("before_model_callback", UsualTurn(answer="I do not speak about that."))
def guarded() -> Any:
    def guard(callback_context: Any, llm_request: Any) -> LlmResponse:
        return LlmResponse(content=content(genai.Part(text="I do not speak about that.")))

    return llm_agent(["never"], before_model_callback=guard)


@case("after_agent_callback", UsualTurn(answer="Goodbye.", before=("Hello.",)))
def polite() -> Any:
    def add(callback_context: Any) -> genai.Content:
        return content(genai.Part(text="Goodbye."))

    return llm_agent(["Hello."], after_agent_callback=add)


class Translates(BasePlugin):
    """Plugin that rewrites the user's message."""

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> genai.Content:
        return genai.Content(role="user", parts=[genai.Part(text="Ciao")])


@case("App with a plugin that rewrites the client's message", UsualTurn(answer="Ciao"))
def app() -> Any:
    return App(name="app", root_agent=llm_agent([received]), plugins=[Translates(name="translates")])


@case("thread.reply in a tool", UsualTurn(answer="From the tool.", before=("Not this.",)))
def replies() -> Any:
    async def reply() -> str:
        await get_aion_context().thread.reply("From the tool.")
        return "done"

    return llm_agent([call("reply")], ["Not this."], tools=[reply])


@case("skip_summarization", UsualTurn(answer=None, parts=({"total": 3},)))
def raw_result() -> Any:
    def total(tool_context: ToolContext) -> dict[str, Any]:
        """Return the total."""
        tool_context.actions.skip_summarization = True
        return {"total": 3}

    return llm_agent([call("total")], tools=[total])


# ── State, artifacts and memory ───────────────────────────────────────────────────────────────────────────────────────


@case("Saved artifact", UsualTurn(answer="Saved.", artifacts={"notes.txt": "milk"}))
def artifact() -> Any:
    async def save(tool_context: ToolContext) -> str:
        await tool_context.save_artifact("notes.txt", genai.Part(text="milk"))
        return "saved"

    return llm_agent([call("save")], ["Saved."], tools=[save])


@case(
    "Session and user state",
    UsualTurn(answer="1, 1"),
    UsualTurn(answer="2, 2"),
    UsualTurn(answer="1, 3", new_context=True),
)
def state() -> Any:
    def count(ctx: Any) -> Event:
        known = ctx.session.state
        now = {key: known.get(key, 0) + 1 for key in ("turns", "user:turns")}
        text = f"{now['turns']}, {now['user:turns']}"
        return Event(content=content(genai.Part(text=text)), actions=EventActions(state_delta=now))

    return yielding_agent(count)


@case(
    "Memory",
    UsualTurn(sent=("I like tea.",), answer="Noted."),
    UsualTurn(sent=("Tea?",), answer="You like tea.", new_context=True),
)
def memory() -> Any:
    async def remember(callback_context: Any) -> None:
        await callback_context.add_session_to_memory()

    def recalled(request: Any) -> LlmResponse:
        found = "I like tea." in "\n".join(texts(request.contents))
        return LlmResponse(content=content(genai.Part(text="You like tea." if found else "Nothing.")))

    return llm_agent(
        ["Noted."],
        [call("load_memory", query="tea")],
        [recalled],
        tools=[load_memory_tool],
        after_agent_callback=remember,
    )


# ── Questions to the client ───────────────────────────────────────────────────────────────────────────────────────────


@case(
    "LongRunningFunctionTool",
    UsualTurn(state="INPUT_REQUIRED", answer="approve(amount=5) waits for its result.", parts=({"name": "approve"},)),
    UsualTurn(sent=({"data": {"approved": True}},), answer="Paid."),
)
def long_running() -> Any:
    def approve(amount: int) -> None:
        """Ask a manager."""

    return llm_agent([call("approve", amount=5)], ["Paid."], tools=[LongRunningFunctionTool(func=approve)])


def pay(amount: int) -> str:
    return "paid"


QUESTION = "May the agent call pay(amount={})? Answer yes or no."


@case(
    "Tool confirmation",
    UsualTurn(state="INPUT_REQUIRED", answer=QUESTION.format(5), parts=({"name": "pay"},)),
    UsualTurn(sent=("yes",), answer="Paid."),
)
def confirmation() -> Any:
    return llm_agent([call("pay", amount=5)], ["Paid."], tools=[FunctionTool(pay, require_confirmation=True)])


@case(
    "Several confirmations",
    UsualTurn(
        state="INPUT_REQUIRED",
        answer=QUESTION.format(5) + QUESTION.format(7),
        parts=({"name": "pay"}, {"name": "pay"}),
    ),
    UsualTurn(each="yes", answer="Both paid."),
)
def confirmations() -> Any:
    calls = [call("pay", amount=5), call("pay", amount=7)]
    return llm_agent(calls, ["Both paid."], tools=[FunctionTool(pay, require_confirmation=True)])


@case(
    "Tool with a credential",
    UsualTurn(state="AUTH_REQUIRED", answer="A credential is needed: send it.", parts=({"authConfig": "…"},)),
    UsualTurn(sent=("my-key",), answer="No meetings."),
)
def credential() -> Any:
    def meetings(tool_context: ToolContext) -> str:
        """List the meetings."""
        scheme = APIKey.model_validate({"in": "header", "name": "x-key"})
        config = AuthConfig(auth_scheme=scheme, credential_key="key")
        if tool_context.get_auth_response(config) is None:
            tool_context.request_credential(config)
            return "waiting"
        return "none"

    return llm_agent([call("meetings")], ["No meetings."], tools=[meetings])
