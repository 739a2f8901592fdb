"""What the code of a project's agent says about the agent, for a command that prints its card."""

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.lazy_agent import LazyAgent
from aion_tools.cli.environment_set import environment_set


def code_profile(config: Path, agent_id: str) -> AgentProfile:
    """Load the agent's code, with the project's variables, and return its profile.

    An agent that cannot be loaded gets a warning on stderr: its card has only what aion.yaml says.
    """
    from aion_core.loading.deployment import read_deployment_config
    from aion_core.loading.discovery.discover import discover
    from aion_tools.dev.environment import agents_variables

    try:
        variables, _ = agents_variables(discover(config), os.environ)
    except ConfigurationError:
        variables = {}
    agent = in_memory_agents(read_deployment_config(config))[agent_id]
    # The author's modules may print, and stdout is for the card.
    with environment_set(variables), contextlib.redirect_stdout(sys.stderr):
        try:
            agent.load()
        except ConfigurationError as error:
            click.echo(f"Warning: {error} The card has only what aion.yaml says.", err=True)
            return UNKNOWN
        return agent.profile()


def in_memory_agents(declared: DeploymentConfig) -> Mapping[str, LazyAgent]:
    """Return the project's agents, not yet loaded, with stores in memory."""
    from aion_core.bootstrap.stores import build_stores
    from aion_core.bootstrap.turns import build_agents
    from aion_core.clock import SystemClock
    from aion_core.settings import Settings

    dependencies = build_stores(Settings.from_environ({"AION_STORE": "memory"}), SystemClock()).agents
    return build_agents(declared.agents, declared.folder, dependencies, declared.roots)
