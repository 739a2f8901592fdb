"""Frameworks that an agent of a new project may have."""

OBJECTS = {"langgraph": "graph", "adk": "root_agent", "executor": "executor"}
"""By framework, the object of agent.py that is the agent; the first is the default."""

EXTRAS = {"langgraph": "langgraph", "adk": "adk", "executor": ""}
"""By framework, aion-lambda's extra that brings it; the a2a-sdk of an executor comes without one."""
