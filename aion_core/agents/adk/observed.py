"""Hears what ADK calls back of a turn, from wherever in its agents: sub-agents, model calls, tools.

The operator's log gets one line of fixed fields for each model call and each tool, without a word of what was said (S3,
R38); the client is told which sub-agent is invoked (R39); and what an author's helpers say is known by where they do.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from aion_core.agents.adk.going_on import goes_on
from aion_core.agents.adk.sink import running_place
from aion_core.agents.outbound import InternalEvents


@dataclass(frozen=True, slots=True)
class Invoked:
    """A sub-agent begins."""

    name: str
    branch: str


class Observer(BasePlugin):
    """Hears one turn; it changes nothing of it."""

    def __init__(self, task_id: str, root: str, hand: Callable[[object], Awaitable[None]]) -> None:
        """`root` is the name of the agent that all others are sub-agents of; `hand` tells the client."""
        super().__init__(name="aion_observer")
        self._internal, self._root, self._hand = InternalEvents(task_id), root, hand

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Let the client know of a sub-agent."""
        running_place.set(_place(agent, callback_context))
        if agent.name != self._root:
            await self._hand(Invoked(agent.name, callback_context._invocation_context.branch or ""))

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Log `internal:llm-call`."""
        agent = callback_context._invocation_context.agent
        if isinstance(agent, BaseAgent):
            running_place.set(_place(agent, callback_context))
        self._internal.llm_call()

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Log `internal:tool-start`; the arguments are not logged."""
        running_place.set(f"tool/{tool_context.function_call_id}")
        self._internal.tool_start(tool.name, tool_context.function_call_id or "")

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> None:
        """Log `internal:tool-complete`."""
        self._internal.tool_complete(tool_context.function_call_id or "", success=True)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> None:
        """Log `internal:tool-complete`, without success."""
        self._internal.tool_complete(tool_context.function_call_id or "", success=False)

    def stepped(self) -> None:
        """Log `internal:checkpoint`: an event is stored in the session."""
        self._internal.checkpoint()


def _place(agent: BaseAgent, context: CallbackContext) -> str:
    """Return what names the agent's run: where it goes on from its last event, that event is part of the name."""
    branch = context._invocation_context.branch or ""
    if not goes_on(agent):
        return f"agent/{branch}/{agent.name}"
    last = next((event.id for event in reversed(context.session.events) if event.branch in (None, branch)), "")
    return f"agent/{branch}/{agent.name}/{last}"
