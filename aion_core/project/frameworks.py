"""Frameworks with a template for new projects."""

from aion_core.agents.frameworks import FRAMEWORKS

OBJECTS = {name: framework.example for name, framework in FRAMEWORKS.items() if framework.example}
"""Name of the agent object in agent.py, by framework; the first framework is the default."""
