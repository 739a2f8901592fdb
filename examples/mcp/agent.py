"""LangChain agent with the tools of an MCP server. Its scripted model needs no key and no network.

MCP_URL names an MCP server by HTTP. Without it each turn starts server.py, and talks to it by stdio.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.sessions import Connection
from langchain_mcp_adapters.tools import load_mcp_tools


class ScriptedClerk(BaseChatModel):
    """Scripted chat model: calls the tool `stock` with the last word of the question, then answers."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> "ScriptedClerk":
        """Accept the agent's tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        last, article = messages[-1], (messages[-1].text.split() or [""])[-1].strip("?.!")
        arguments = {"name": "stock", "args": {"article": article}, "id": "call-stock"}
        message = AIMessage(f"In stock: {last.text}") if last.type == "tool" else AIMessage("", tool_calls=[arguments])
        return ChatResult(generations=[ChatGeneration(message=message)])


def connection() -> Connection:
    """Return the connection to the MCP server: HTTP if MCP_URL is set, else stdio."""
    if url := os.environ.get("MCP_URL"):
        return {"transport": "streamable_http", "url": url}
    # Pass only these variables to the MCP server's process, so that the process cannot read the model's key.
    needed = {"PYTHONPATH": os.pathsep.join(sys.path), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    server = str(Path(__file__).with_name("server.py"))
    return {"transport": "stdio", "command": sys.executable, "args": [server], "env": needed}


@asynccontextmanager
async def graph(config: RunnableConfig) -> AsyncIterator[Any]:
    """Open a session of the MCP server for one turn, and yield an agent with its tools."""
    async with MultiServerMCPClient({"warehouse": connection()}).session("warehouse") as session:
        yield create_agent(ScriptedClerk(), await load_mcp_tools(session))
