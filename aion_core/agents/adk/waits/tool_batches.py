"""Tool calls of one model's message: ADK makes them at once, and they stop together if one of them waits.

A call that stops gives ADK no response. When all calls of its message have ended or stopped, the results of the others
are kept, and the agent pauses.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.flows.llm_flows.base_llm_flow import BaseLlmFlow
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.genai import types as genai

from aion_core.agents.adk.parts import parts_of_event
from aion_core.agents.adk.waits.held_calls import HeldCalls, held_event, kept_result
from aion_core.agents.adk.waits.pauses import FRAMEWORK, pause_event, pausing
from aion_core.agents.adk.waits.tool_runs import ToolQuestion, running_tool
from aion_core.agents.adk.waits.turn_waits import TurnWaits, turn_waits
from aion_core.protocol.message_json import to_json
from aion_core.protocol.types import Message

_DEFERS, _STOPPABLE = "_defers_response", "_aion_stoppable"


def make_stoppable() -> None:
    """Let the tool calls of all ADK agents stop while they wait, within a turn. A repeated call has no effect."""
    original: Any = BaseLlmFlow._postprocess_handle_function_calls_async
    if getattr(original, _STOPPABLE, False):
        return

    async def _postprocess_handle_function_calls_async(
        self: Any, invocation_context: InvocationContext, function_call_event: Event, llm_request: LlmRequest
    ) -> AsyncGenerator[Event, None]:
        events = original(self, invocation_context, function_call_event, llm_request)
        waits = turn_waits.get()
        # An agent that is a tool runs in a tool: what waits in it stops the whole tool.
        if waits is not None and running_tool.get() is None and not _delegates(function_call_event, llm_request):
            events = _stoppable(waits, invocation_context, function_call_event, events)
        async with aclosing(events) as stream:
            async for event in stream:
                yield event

    setattr(_postprocess_handle_function_calls_async, _STOPPABLE, True)
    BaseLlmFlow._postprocess_handle_function_calls_async = (  # type: ignore[method-assign]
        _postprocess_handle_function_calls_async
    )
    BaseTool._defers_response = _Defers()  # type: ignore[assignment]


def _delegates(message: Event, request: LlmRequest) -> bool:
    """Return True if a call of the message gives a task to another agent: ADK runs this agent after the message's tools."""
    tools = [request.tools_dict.get(call.name or "") for call in message.get_function_calls()]
    return any(tool is not None and tool._defers_response for tool in tools)


class _Defers:
    """`BaseTool._defers_response`: ADK makes no response for a tool that defers it, as for a call that has stopped."""

    def __get__(self, tool: BaseTool | None, owner: type | None = None) -> bool:
        if tool is None or tool.__dict__.get(_DEFERS, False):
            return tool is not None
        run = running_tool.get()
        return run is not None and run.tool is tool and run.has_stopped

    def __set__(self, tool: BaseTool, value: bool) -> None:
        tool.__dict__[_DEFERS] = value


async def _stoppable(
    waits: TurnWaits, ctx: InvocationContext, message: Event, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """Yield ADK's events of the message's tool calls, or stop the agent if one of them has stopped."""
    ids = {call.id for call in message.get_function_calls() if call.id}
    shown = waits.begin_batch(ids, ctx.session.events)
    result: Event | None = None
    try:
        async with aclosing(events) as stream:
            async for event in stream:
                responses = [each for each in event.get_function_responses() if each.id in ids]
                for part in parts_of_event(event) if responses else ():
                    _keep_response(waits, part)
                if not any(run.has_stopped for run in waits.runs(ids).values()):
                    yield event
                elif responses:
                    result = event
                    if event.actions.transfer_to_agent:
                        break  # the transfer is kept with the tool's result
    except Exception:
        # Another tool has failed, and the turn with it. ADK keeps the results of the tools that had ended.
        if result is not None:
            yield result
        raise
    stopped = {name: run for name, run in waits.runs(ids).items() if run.has_stopped}
    if not stopped:
        if shown:
            # ADK has seen these calls in the message, and does not look again.
            yield pause_event(message.author, ctx)
        return
    # The agent's callbacks come after its end.
    ctx.end_invocation = True
    waits.held |= ids
    given = {each.id: each for each in result.get_function_responses()} if result is not None else {}
    others = {name: run for name, run in waits.runs(ids).items() if name not in stopped}
    kept = {name: kept_result(given.get(name), run.context.actions) for name, run in others.items()}
    if kept or shown or message.long_running_tool_ids:
        yield held_event(HeldCalls(frozenset(stopped), kept), message)
    questions = [run.question for run in stopped.values() if run.question is not None]
    for name, run in stopped.items():
        if run.wait is not None:
            waits.add(name, run.wait)
    if questions:
        yield _question_event(questions, message)
    else:
        for event in pausing(message.author, ctx):
            yield event


def _keep_response(waits: TurnWaits, part: genai.Part) -> None:
    """Put the kept response of a call that was not made again in its place, with its files."""
    response = part.function_response
    kept = waits.kept(response.id or "") if response is not None else None
    if kept is not None and (first := kept.function_response()) is not None:
        part.function_response = first


def _question_event(asked: Collection[ToolQuestion], message: Event) -> Event:
    """Return the event with which the agent asks the client the questions of remote agents."""
    calls = []
    for each in asked:
        kind = "auth_required" if each.needs_authorization else "input_required"
        for question in each.questions:
            args: dict[str, Any] = {
                kind: question.text,
                "message": to_json(Message(parts=question.details)),
                "schema": dict(question.schema or {}),
                "choices": list(question.choices),
            }
            calls.append(genai.FunctionCall(id=question.id, name=FRAMEWORK, args=args))
    return Event(
        invocation_id=message.invocation_id,
        author=message.author,
        branch=message.branch,
        isolation_scope=message.isolation_scope,
        content=genai.Content(role="model", parts=[genai.Part(function_call=call) for call in calls]),
        long_running_tool_ids={call.id for call in calls if call.id},
    )
