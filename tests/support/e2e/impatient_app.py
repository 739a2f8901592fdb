"""App of the agents in AION_CONFIG for `uvicorn --factory`. It gives up on another agent after seconds, not minutes."""

import os
import sys
from typing import Any

from aion_core.agent_client import bounded, documents
from aion_core.bootstrap import build_app
from aion_core.delegation import durable_call
from aion_core.settings import Settings
from aion_tools.testing import ENVIRONMENT

IMPATIENT = "IMPATIENT"
"""Variable that makes the limits of time short, for an agent that never ends by another limit."""


def app() -> Any:
    """Return the app."""
    patience = durable_call.Patience(first_contact=3, silence=3)
    vars(durable_call)["Patience"] = lambda: patience
    if os.environ.get(IMPATIENT):
        documents.DOCUMENT_SECONDS = bounded.PIECE_SECONDS = 2.0
    built = build_app(Settings.from_environ({**ENVIRONMENT, "AION_CONFIG": os.environ["AION_CONFIG"]}))
    if "google.adk.agents.remote_a2a_agent" in sys.modules:
        from aion_core.agents.adk.remote_agents import run

        run.PATIENCE = patience
    return built
