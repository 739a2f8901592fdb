"""ADK agents that call the agent of another server by ADK's `RemoteA2aAgent`, in code as people write it."""

import os
from typing import Any

from google.adk import Workflow
from google.adk.agents import Agent, SequentialAgent
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

from tests.support.adk import DecidingLlm, call


def remote() -> RemoteA2aAgent:
    return RemoteA2aAgent(
        name="worker",
        description="Works slowly.",
        agent_card=f"{os.environ['REMOTE']}/agents/worker/.well-known/agent-card.json",
    )


def transfers(seen: list[str]) -> list[Any]:
    return [call("transfer_to_agent", agent_name="worker")]


def sums_up(seen: list[str]) -> list[Any]:
    return ["Summary: ", "it worked." if any("I worked." in line for line in seen) else "nothing was said."]


root = remote()
transfer = Agent(name="desk", model=DecidingLlm(decide=transfers), sub_agents=[remote()])
sequence = SequentialAgent(name="steps", sub_agents=[remote(), Agent(name="writer", model=DecidingLlm(decide=sums_up))])
workflow = Workflow(name="flow", edges=[("START", remote())])
