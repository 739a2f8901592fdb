"""Agent that a `root_agent.yaml` file declares, as ADK's Agent Config."""

from pathlib import Path
from typing import cast

from google.adk.agents import BaseAgent

from aion_core.errors import AgentLoadError
from aion_core.loading.load_errors.explain import exception_text


def agent_from_file(file: Path) -> BaseAgent:
    """Read an ADK agent from a `root_agent.yaml` file, with ADK's own loader. Raises AgentLoadError."""
    from google.adk.agents import config_agent_utils

    try:
        # Cast the result: ADK declares it as BaseAgent, but it may also be a Workflow.
        return cast("BaseAgent", config_agent_utils.from_config(str(file)))
    except Exception as error:  # catch every exception, because importing the author's tools may raise any
        cause = error.__cause__ or error
        raise AgentLoadError(
            f"ADK cannot read it: {type(cause).__name__}: {exception_text(cause)}",
            where=f"{file.parent.name}/{file.name}",
            do="Correct the file; ADK's page on Agent Config lists its keys.",
        ) from error
