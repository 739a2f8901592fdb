"""Branches of a ParallelAgent that wait for the client's answer while another branch goes on with its own.

ADK runs such a branch again, too: it calls the model without the answer, or goes on with the step after the ParallelAgent.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from google.adk.agents import BaseAgent, ParallelAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.flows.llm_flows.base_llm_flow import BaseLlmFlow

from aion_core.agents.adk.pending_calls import pending_calls
from aion_core.agents.adk.waits.pauses import pausing
from aion_core.agents.adk.waits.turn_waits import turn_waits

_PATCHED = "_aion_keeps_questions_open"


def keep_questions_open() -> None:
    """Let an LLM agent in a ParallelAgent pause, within a turn, while its question is open. A repeated call has no effect."""
    original: Any = BaseLlmFlow.run_async
    if getattr(original, _PATCHED, False):
        return

    async def run_async(self: Any, invocation_context: InvocationContext) -> AsyncGenerator[Event, None]:
        agent: Any = invocation_context.agent
        if (
            turn_waits.get() is not None
            and _is_in_parallel(agent)
            and has_open_question(agent.name, invocation_context.branch, invocation_context.session.events)
        ):
            for event in pausing(agent.name, invocation_context):
                yield event
            return
        async with aclosing(original(self, invocation_context)) as events:
            async for event in events:
                yield event

    setattr(run_async, _PATCHED, True)
    BaseLlmFlow.run_async = run_async  # type: ignore[method-assign]


def has_open_question(author: str, branch: str | None, events: Sequence[Event]) -> bool:
    """Return True if the client has answered none of the calls that the agent last asked about in this branch."""
    asked = [each for each in pending_calls(events) if (each.event.author, each.event.branch) == (author, branch)]
    if not asked:
        return False
    last = max(index for index, event in enumerate(events) if any(event is each.event for each in asked))
    return not any(event.author == "user" and event.branch == branch for event in events[last + 1 :])


def _is_in_parallel(agent: BaseAgent) -> bool:
    above = agent.parent_agent
    while above is not None and not isinstance(above, ParallelAgent):
        above = above.parent_agent
    return above is not None
