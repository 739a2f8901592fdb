"""ADK plugin of a traced turn: it also records the turn's agents, model calls and tool calls."""

from collections.abc import Awaitable, Callable, Hashable
from contextvars import ContextVar
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from aion_core.agents.adk.callbacks import CallbackPlugin
from aion_core.agents.adk.waits.turn_waits import TurnWaits
from aion_core.trace.recorder import TurnTrace
from aion_core.trace.step import Kind

_around: ContextVar[Hashable] = ContextVar("aion_adk_step", default=None)
"""Key of the running agent or tool call: ADK runs what is within it in the same context, or in a copy."""


class TracedPlugin(CallbackPlugin):
    """Plugin of one turn whose steps are recorded."""

    def __init__(
        self,
        task_id: str,
        root: str,
        send: Callable[[object], Awaitable[None]],
        check_lease: Callable[[], None],
        waits: TurnWaits,
        trace: TurnTrace,
    ) -> None:
        super().__init__(task_id, root, send, check_lease, waits)
        self._trace = trace
        self._parents: dict[Hashable, Hashable] = {}
        """Key of the step around each running agent."""

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Record that an agent begins. See `CallbackPlugin.before_agent_callback`."""
        key = _agent(callback_context, agent.name)
        self._parents[key] = _around.get()
        self._trace.begin(key, Kind.AGENT, agent.name, parent=_around.get())
        _around.set(key)
        await super().before_agent_callback(agent=agent, callback_context=callback_context)

    async def after_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        """Record the end of an agent. See `CallbackPlugin.after_agent_callback`."""
        key = _agent(callback_context, agent.name)
        self._trace.end(key)
        _around.set(self._parents.pop(key, None))
        await super().after_agent_callback(agent=agent, callback_context=callback_context)

    async def on_agent_error_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext, error: Exception
    ) -> None:
        """Record that an agent has failed."""
        key = _agent(callback_context, agent.name)
        self._trace.end(key, error=error)
        _around.set(self._parents.pop(key, None))

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Record that a model call begins. See `CallbackPlugin.before_model_callback`."""
        agent = _agent(callback_context, callback_context.agent_name)
        self._trace.begin(("model", agent), Kind.MODEL, llm_request.model or "model", parent=agent)
        await super().before_model_callback(callback_context=callback_context, llm_request=llm_request)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Record the first chunk of a model call, and its end with its tokens."""
        key = ("model", _agent(callback_context, callback_context.agent_name))
        if llm_response.partial:
            self._trace.first_chunk(key)
            return
        used, code = llm_response.usage_metadata, llm_response.error_code
        tokens = (used.prompt_token_count, used.candidates_token_count) if used is not None else (None, None)
        self._trace.end(key, tokens=tokens, failed=bool(code), result=llm_response.error_message if code else None)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        """Record a failed model call."""
        self._trace.end(("model", _agent(callback_context, callback_context.agent_name)), error=error)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Record that a tool call begins, with its arguments. See `CallbackPlugin.before_tool_callback`."""
        if (
            kept := await super().before_tool_callback(tool=tool, tool_args=tool_args, tool_context=tool_context)
        ) is not None:
            return kept  # its step is recorded
        key, call_id = _tool(tool_context), tool_context.function_call_id or ""
        agent = _agent(tool_context, tool_context.agent_name)
        self._trace.begin(key, Kind.TOOL, tool.name, parent=agent, call_id=call_id, arguments=tool_args)
        _around.set(key)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Record the end of a tool call, with its result. See `CallbackPlugin.after_tool_callback`."""
        call: dict[str, Any] = {"tool": tool, "tool_args": tool_args, "tool_context": tool_context}
        if (instead := await super().after_tool_callback(**call, result=result)) is not None:
            self._trace.end(_tool(tool_context))
            return instead
        self._trace.end(_tool(tool_context), result=result)
        if tool_context.actions.transfer_to_agent:
            # The agent has handed the turn to another one: ADK ends it without a callback.
            self._trace.end(_agent(tool_context, tool_context.agent_name))
        return None

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """Record a failed tool call. See `CallbackPlugin.on_tool_error_callback`."""
        call: dict[str, Any] = {"tool": tool, "tool_args": tool_args, "tool_context": tool_context}
        instead = await super().on_tool_error_callback(**call, error=error)
        if instead is None:
            self._trace.end(_tool(tool_context), error=error)
        return instead


def _agent(context: CallbackContext, name: str) -> Hashable:
    """Return the key of a running agent. The same agent may run in several branches and invocations at once."""
    invocation = context._invocation_context
    return invocation.invocation_id, invocation.branch, name


def _tool(context: ToolContext) -> Hashable:
    return "tool", context._invocation_context.invocation_id, context.function_call_id
