"""Deployment of two agents with authentication, in memory."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.support.issuer import AUDIENCE, Issuer

GRAPHS = """
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph


def says(text):
    return StateGraph(MessagesState).add_node(text, lambda _: {"messages": [AIMessage(text)]}).add_edge(START, text)


one, two = says("one"), says("two")
"""

AGENTS = """
aion:
  security:
    schemes:
%s
%s
  agents:
    one: {path: guarded_agents.py:one, capabilities: {extended_agent_card: true}, extended_card: {description: More.}}
    two: {path: guarded_agents.py:two%s}
"""


def jwt_scheme(issuer: Issuer, **more: Any) -> str:
    """Return the line of aion.yaml that declares the issuer's tokens as the scheme `jwt`."""
    configured = {
        "type": "bearer-jwt",
        "issuer": issuer.url,
        "audience": AUDIENCE,
        "jwks_url": f"{issuer.url}/jwks.json",
    }
    return scheme("jwt", **configured | more)


def scheme(name: str, **configured: Any) -> str:
    """Return the line of aion.yaml that declares a scheme."""
    words = ", ".join(
        f"{key}: {value if isinstance(value, list) else repr(value)}" for key, value in configured.items()
    )
    return f"      {name}: {{{words}}}\n"


def guarded(folder: Path, schemes: str, require: str = "", *, two: str = "", **environ: str) -> FastAPI:
    """Return the app of an aion.yaml with these schemes; `two` has further keys of the second agent."""
    (folder / "guarded_agents.py").write_text(GRAPHS)
    config = folder / "aion.yaml"
    config.write_text(AGENTS % (schemes.rstrip("\n"), f"    require: {require}" if require else "", two and f", {two}"))
    environment = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": "https://x.test", **environ}
    return build_app(Settings.from_environ(environment))
