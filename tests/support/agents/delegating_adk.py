"""ADK agents that pass their message to the agent `remote` of aion.yaml: as the root, and by a tool."""

from google.adk.agents import LlmAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

from aion.adk.scripted import ScriptedLlm
from aion.shared.remote import call_agent


async def ask(text: str) -> str:
    """Ask the other agent."""
    return (await call_agent("remote", text)).text


root = RemoteA2aAgent(name="root", agent_card="remote")
by_tool = LlmAgent(name="by_tool", model=ScriptedLlm(), tools=[ask])
