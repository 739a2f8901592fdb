"""The running tool call of an ADK agent, and the exceptions that stop it."""

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from msgspec import Struct

from aion_core.agents.questions import Question
from aion_core.engine.records import AwaitedCall
from aion_core.protocol.types import Artifact


class ToolStops(Exception):
    """Exception that stops a tool: it waits, or a remote agent asks. The tool runs again when the turn goes on."""


class ToolQuestion(Struct, frozen=True):
    """Questions of a remote agent that a tool has called."""

    questions: Sequence[Question]
    needs_authorization: bool = False


class ToolRun(Struct, eq=False):
    """One run of a tool call."""

    call_id: str
    """Id of the model's function call."""
    site: str
    """Name of the run, the same if the tool runs again."""
    attempt: str
    tool: BaseTool
    context: ToolContext
    may_stop: bool = False
    """True if the server may stop the tool, and run it again when the turn goes on."""
    wait: AwaitedCall | datetime | None = None
    """Wait for which the tool has stopped, if it has."""
    question: ToolQuestion | None = None
    """Questions for the client, if the tool has stopped for them."""
    kept: dict[str, Any] | None = None
    """Response of an earlier run, in place of another run."""

    @property
    def has_stopped(self) -> bool:
        """True if the tool has no result yet. An author's code that catches ToolStops changes nothing about this."""
        return self.wait is not None or self.question is not None


class FileReceived(Struct, frozen=True):
    """Event: a tool has received an artifact of a remote agent, under an id of its own."""

    artifact: Artifact


running_tool: ContextVar[ToolRun | None] = ContextVar("aion_adk_running_tool", default=None)
"""The running tool call, also for the agents that it runs; None outside of a tool."""
