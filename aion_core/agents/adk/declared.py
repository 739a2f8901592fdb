"""ADK agents that are declared in a file, root_agent.yaml, instead of programmed."""

from pathlib import Path
from typing import cast

from google.adk.agents import BaseAgent

from aion_core.agents.load_errors import text_of
from aion_core.errors import AgentLoadError


def agent_of(file: Path) -> BaseAgent:
    """Return the agent that the file declares, as `adk web` reads it; raises AgentLoadError."""
    from google.adk.agents import config_agent_utils

    try:
        # ADK takes its Workflow for one, too.
        return cast("BaseAgent", config_agent_utils.from_config(str(file)))
    except Exception as error:  # it imports the author's tools, which may raise anything
        cause = error.__cause__ or error
        raise AgentLoadError(
            f"ADK cannot read it: {type(cause).__name__}: {text_of(cause)}",
            where=f"{file.parent.name}/{file.name}",
            do="Mend the file; ADK's page on Agent Config has its keys.",
        ) from error
