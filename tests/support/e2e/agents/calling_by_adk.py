"""ADK agent that passes its message to the agent whose card is at the URL in REMOTE."""

import os

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

caller = RemoteA2aAgent(name="far", agent_card=f"{os.environ['REMOTE']}/.well-known/agent-card.json")
