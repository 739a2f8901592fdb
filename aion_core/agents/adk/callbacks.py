"""ADK plugin of a turn, which observes its agents, model calls and tools."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from msgspec import Struct

from aion_core.agents.adk.resumption import is_resumable, passes_events_on
from aion_core.agents.adk.waits.tool_runs import running_tool
from aion_core.agents.adk.waits.turn_waits import TurnWaits
from aion_core.agents.internal_events import InternalEvents
from aion_core.errors import LeaseLost, StoreError

call_site: ContextVar[str] = ContextVar("aion_adk_call_site", default="")
"""Name of the running agent or tool call. Code that runs again in a resumed turn has the same name."""

running_agent: ContextVar[tuple[str, str]] = ContextVar("aion_adk_agent", default=("", ""))
"""Branch and name of the running agent, also within its tools."""


class RunningAgent(Struct, frozen=True):
    """Agent that runs."""

    agent: BaseAgent
    branch: str
    task: asyncio.Task[Any] | None
    """The asyncio task that it has begun in."""


_running: ContextVar[tuple[RunningAgent, ...]] = ContextVar("aion_adk_agents", default=())
"""The running agent and those around it, outermost first."""


class AgentInvoked(Struct, frozen=True):
    """Event: a sub-agent has started."""

    name: str
    branch: str
    around: Sequence[str] = ()
    """Names of the custom agents around the agent, outermost first."""


class AgentEnded(Struct, frozen=True):
    """Event: an agent has ended. If it has streamed text without a complete event, the text becomes a message.

    If a custom agent is around it, this event may arrive before the agent's last events.
    """

    name: str
    branch: str
    around: Sequence[str] = ()
    """Names of the custom agents around the agent, outermost first."""
    lags: bool = False
    """True if one of them runs the agent in a task of its own, so that even its chunks may arrive later."""


class StepRefused(Struct, frozen=True):
    """Event: the next step must not begin. The turn ends with this error."""

    error: Exception


class CallbackPlugin(BasePlugin):
    """ADK plugin of one turn: logs internal events, announces sub-agents, and sets the call site of replies.

    A log record contains no content of the conversation. The plugin changes two things only: no agent, model call or
    tool begins, or continues after an event, when the turn's lease is lost; and a tool call that has stopped to wait
    has no result, and one that had ended before another call of its message waited keeps its result.
    """

    def __init__(
        self,
        task_id: str,
        root: str,
        send: Callable[[object], Awaitable[None]],
        check_lease: Callable[[], None],
        waits: TurnWaits,
    ) -> None:
        """Create the plugin. `root` is the name of the root agent, and `send` sends an event to the turn's channel.

        `check_lease` raises LeaseLost if another process may have the turn. `waits` has what the turn waits for.
        """
        super().__init__(name="aion_observer")
        self._check_lease, self._waits = check_lease, waits
        self._internal, self._root, self._send = InternalEvents(task_id), root, send

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Send AgentInvoked for a sub-agent, so that the client learns of it."""
        await self.before_step()
        call_site.set(_agent_site(agent, callback_context))
        branch = callback_context._invocation_context.branch or ""
        running_agent.set((branch, agent.name))
        around = _agents_around(agent)
        _running.set((*around, RunningAgent(agent, branch, asyncio.current_task())))
        if agent.name != self._root:
            names = [each.agent.name for each in around if not passes_events_on(each.agent)]
            await self._send(AgentInvoked(agent.name, branch, names))

    async def after_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Send AgentEnded. If the agent has streamed text without a complete event, this completes its message."""
        around = _agents_around(agent)
        _running.set(around)
        if around:
            running_agent.set((around[-1].branch, around[-1].agent.name))
        if isinstance(sys.exception(), asyncio.CancelledError):
            return  # Send no AgentEnded: it would complete the unfinished text of a canceled agent as a message.
        # Send AgentEnded also for the empty branch, because a custom agent may have streamed text in events without a
        # branch.
        custom = [each for each in around if not passes_events_on(each.agent)]
        names = [each.agent.name for each in custom]
        lags = any(each.task is not asyncio.current_task() for each in custom)
        for branch in dict.fromkeys((callback_context._invocation_context.branch or "", "")):
            await self._send(AgentEnded(agent.name, branch, names, lags))

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Log `internal:llm-call`."""
        await self.before_step()
        agent = callback_context._invocation_context.agent
        if isinstance(agent, BaseAgent):
            call_site.set(_agent_site(agent, callback_context))
            running_agent.set((callback_context._invocation_context.branch or "", agent.name))
        self._internal.llm_call()

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Log `internal:tool-start` without the tool's arguments. Return the result of an earlier run if it is kept."""
        await self.before_step()
        run = self._waits.begin_tool(tool, tool_context)
        if run.kept is not None:
            return run.kept
        call_site.set(f"tool/{tool_context.function_call_id}")
        running_agent.set((tool_context._invocation_context.branch or "", tool_context.agent_name))
        self._internal.tool_start(tool.name, tool_context.function_call_id or "")
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Log `internal:tool-complete`. Return nothing, as a dict, for a call that has stopped."""
        run = running_tool.get()
        if run is not None and (run.has_stopped or run.kept is not None):
            # The author's own callbacks see a result once.
            return {} if run.has_stopped else run.kept
        self._internal.tool_complete(tool_context.function_call_id or "", success=True)
        return None

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """Log `internal:tool-complete` for a failed tool call. A call that has stopped has not failed."""
        run = running_tool.get()
        if run is not None and run.has_stopped:
            return {}
        self._internal.tool_complete(tool_context.function_call_id or "", success=False)
        return None

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
        """Let the agent continue after its event only under the lease, also in an agent that is a tool."""
        if not event.partial:
            await self.before_step()

    async def before_step(self) -> None:
        """Wait for the end of the turn if its lease is lost."""
        try:
            self._check_lease()
        except (LeaseLost, StoreError) as error:
            # Do not raise the error here: ADK would log it and wrap it. The turn cancels this call.
            await self._send(StepRefused(error))

    def event_stored(self) -> None:
        """Log `internal:checkpoint` after the session has stored an event."""
        self._internal.checkpoint()


def _agents_around(agent: BaseAgent) -> tuple[RunningAgent, ...]:
    """Return the running agents around this agent."""
    running = _running.get()
    # Agents further in have ended without their callback, because a callback before has answered in their place.
    place = next((n for n in reversed(range(len(running))) if running[n].agent is agent), len(running))
    return running[:place]


def _agent_site(agent: BaseAgent, context: CallbackContext) -> str:
    """Return the call site of an agent's code, made of its branch and name.

    For a resumable agent, the call site includes the last event's id, because the agent resumes after this event.
    """
    branch = context._invocation_context.branch or ""
    if not is_resumable(agent):
        return f"agent/{branch}/{agent.name}"
    last = next((event.id for event in reversed(context.session.events) if event.branch in (None, branch)), "")
    return f"agent/{branch}/{agent.name}/{last}"
