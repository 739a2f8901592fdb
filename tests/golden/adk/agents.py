"""The agents of the transcripts, one for each: `plain_answer()` is served by `plain_answer.v1.sse` and its v0.3 twin.

Plain ADK; no network, no time, no chance. What an author imports from `aion` is imported where it is used.
"""

from typing import Any

from a2a.types import Artifact, Message, Part, Role, Task
from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.auth import AuthConfig
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types as genai

from tests.support.adk import agent, call, saying, says


def look() -> str:
    """Look."""
    return "a file"


def plain_answer() -> BaseAgent:
    return LlmAgent(name="root", model=saying(["Hello", " there", "."]))


def partial_only() -> BaseAgent:
    """Nothing closes the stream."""
    return agent(says("One."), says("Tw", partial=True), says("o.", partial=True))


def tool_call_with_words() -> BaseAgent:
    return LlmAgent(name="root", model=saying(["Let me look.", call("look")], ["A file."]), tools=[look])


def sub_agents() -> BaseAgent:
    names = ("first", "second")
    subs = [LlmAgent(name=name, model=saying([f"The {name} says."])) for name in names]
    return SequentialAgent(name="root", sub_agents=subs)


def outbox_message() -> BaseAgent:
    from aion.shared.types import A2AOutbox

    done = Message(role=Role.ROLE_AGENT, parts=[Part(text="Done!")])
    return agent(says("Working on it."), says(state_delta={"a2a_outbox": A2AOutbox(message=done)}))


def outbox_task() -> BaseAgent:
    from aion.shared.types import A2AOutbox

    patch = Task(
        history=[Message(role=Role.ROLE_AGENT, parts=[Part(text=text)]) for text in ("First.", "Last.")],
        artifacts=[Artifact(artifact_id="my-report", name="report", parts=[Part(text="All is well.")])],
        metadata={"my_key": "my_value", "aion:network": "forged"},
    )
    return agent(says(state_delta={"a2a_outbox": A2AOutbox(task=patch)}))


def saved_artifact() -> BaseAgent:
    async def save(tool_context: ToolContext, text: str) -> str:
        """Save."""
        await tool_context.save_artifact("notes.txt", genai.Part.from_bytes(data=text.encode(), mime_type="text/plain"))
        return "saved"

    model = saying([call("save", text="one")], [call("save", text="two")], ["Saved."])
    return LlmAgent(name="root", model=model, tools=[save])


def reply_from_a_tool() -> BaseAgent:
    async def answer() -> str:
        """Answer."""
        from aion.adk import get_aion_context

        await get_aion_context().thread.reply("From the tool.")
        return "answered"

    return LlmAgent(name="root", model=saying([call("answer")], ["The model's words."]), tools=[answer])


def long_running_tool() -> BaseAgent:
    def approve(amount: int) -> None:
        """Ask a manager."""

    model = saying(["I ask.", call("approve", "my-call", amount=5)], ["Paid."])
    return LlmAgent(name="root", model=model, tools=[LongRunningFunctionTool(func=approve)])


def confirmation() -> BaseAgent:
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    model = saying([call("pay", "my-call", amount=5)], ["Paid."])
    return LlmAgent(name="root", model=model, tools=[FunctionTool(pay, require_confirmation=True)])


def credential() -> BaseAgent:
    def meetings(tool_context: ToolContext) -> str:
        """List the meetings."""
        config = AuthConfig(
            auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "x-key"}), credential_key="my-credential"
        )
        if tool_context.get_auth_response(config) is None:
            tool_context.request_credential(config)
            return "waiting"
        return "none"

    return LlmAgent(name="root", model=saying([call("meetings", "my-call")], ["No meetings."]), tools=[meetings])


def failure() -> BaseAgent:
    def fail() -> Any:
        """Fail."""
        raise ValueError("the secret")

    return LlmAgent(name="root", model=saying(["Let me see.", call("fail")]), tools=[fail])
