"""ADK agents of the golden transcripts: `plain_answer()` is the agent of `plain_answer.v1.sse` and `plain_answer.v03.sse`.

The agents use no network, time or randomness. Only functions that need `aion` import it."""

from typing import Any

from a2a.types import Artifact, Message, Part, Role, Task
from fastapi.openapi.models import APIKey
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.auth import AuthConfig
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types as genai

from tests.support.adk import call, scripted_model, text_event, yielding_agent


def look() -> str:
    return "a file"


def plain_answer() -> BaseAgent:
    return LlmAgent(name="root", model=scripted_model(["Hello", " there", "."]))


def partial_only() -> BaseAgent:
    """Return an agent that ends after partial events: no event with their complete text follows."""
    return yielding_agent(text_event("One."), text_event("Tw", partial=True), text_event("o.", partial=True))


def tool_call_with_words() -> BaseAgent:
    return LlmAgent(name="root", model=scripted_model(["Let me look.", call("look")], ["A file."]), tools=[look])


def sub_agents() -> BaseAgent:
    names = ("first", "second")
    subs: list[BaseAgent] = [LlmAgent(name=name, model=scripted_model([f"The {name} says."])) for name in names]
    return SequentialAgent(name="root", sub_agents=subs)


def outbox_message() -> BaseAgent:
    from aion.shared.types import A2AOutbox

    done = Message(role=Role.ROLE_AGENT, parts=[Part(text="Done!")])
    return yielding_agent(text_event("Working on it."), text_event(state_delta={"a2a_outbox": A2AOutbox(message=done)}))


def outbox_task() -> BaseAgent:
    from aion.shared.types import A2AOutbox

    patch = Task(
        history=[Message(role=Role.ROLE_AGENT, parts=[Part(text=text)]) for text in ("First.", "Last.")],
        artifacts=[Artifact(artifact_id="my-report", name="report", parts=[Part(text="All is well.")])],
        metadata={"my_key": "my_value", "aion:network": "forged"},
    )
    return yielding_agent(text_event(state_delta={"a2a_outbox": A2AOutbox(task=patch)}))


def saved_artifact() -> BaseAgent:
    async def save(tool_context: ToolContext, text: str) -> str:
        await tool_context.save_artifact("notes.txt", genai.Part.from_bytes(data=text.encode(), mime_type="text/plain"))
        return "saved"

    model = scripted_model([call("save", text="one")], [call("save", text="two")], ["Saved."])
    return LlmAgent(name="root", model=model, tools=[save])


def reply_from_a_tool() -> BaseAgent:
    async def answer() -> str:
        from aion.adk import get_aion_context

        await get_aion_context().thread.reply("From the tool.")
        return "answered"

    return LlmAgent(name="root", model=scripted_model([call("answer")], ["The model's words."]), tools=[answer])


def long_running_tool() -> BaseAgent:
    def approve(amount: int) -> None:
        """Ask a manager."""

    model = scripted_model(["I ask.", call("approve", "my-call", amount=5)], ["Paid."])
    return LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=approve)])


def confirmation() -> BaseAgent:
    def pay(amount: int) -> str:
        return "paid"

    model = scripted_model([call("pay", "my-call", amount=5)], ["Paid."])
    return LlmAgent(name="root", model=model, tools=[FunctionTool(pay, require_confirmation=True)])


def credential() -> BaseAgent:
    def meetings(tool_context: ToolContext) -> str:
        """List the meetings."""
        config = AuthConfig(
            auth_scheme=APIKey.model_validate({"in": "header", "name": "x-key"}), credential_key="my-credential"
        )
        if tool_context.get_auth_response(config) is None:
            tool_context.request_credential(config)
            return "waiting"
        return "none"

    return LlmAgent(
        name="root", model=scripted_model([call("meetings", "my-call")], ["No meetings."]), tools=[meetings]
    )


def failure() -> BaseAgent:
    def fail() -> Any:
        raise ValueError("the secret")

    return LlmAgent(name="root", model=scripted_model(["Let me see.", call("fail")]), tools=[fail])
