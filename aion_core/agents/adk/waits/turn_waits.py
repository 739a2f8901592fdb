"""Waits of the code of one ADK turn."""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from datetime import datetime

from google.adk.events import Event
from google.adk.sessions import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode, Workflow

from aion_core.agents.adk.waits.held_calls import KeptResult, hide_long_running, show_long_running, take_held
from aion_core.agents.adk.waits.tool_runs import ToolRun, running_tool
from aion_core.agents.suspension import suspended
from aion_core.engine.agent import Suspended
from aion_core.engine.records import AwaitedCall


class TurnWaits:
    """Waits of one turn, and the tool calls that ADK holds for them."""

    def __init__(self, root: BaseNode, can_resume: Callable[[], bool], stored: Callable[[], Sequence[Event]]) -> None:
        """`can_resume` returns True if another process can go on with the turn as it is now.

        `root` is the root of the App, and `stored` returns the session's events so far.
        """
        self.can_resume, self.stored = can_resume, stored
        self.is_workflow = isinstance(root, Workflow)
        self.nodes: set[str] = set()
        """Paths of the LLM agents that have begun as nodes of a Workflow in this process."""
        self.held: set[str] = set()
        """Ids of the tool calls of messages that are held: none of them asks the client anything yet."""
        self._times: dict[str, datetime] = {}
        self._calls: dict[str, AwaitedCall] = {}
        self._runs: dict[str, ToolRun] = {}
        self._batched: set[str] = set()
        """Ids of the tool calls that `tool_batches` runs, and can stop together."""
        self.made_again: set[str] = set()
        """Ids of the stored tool calls without results, which ADK makes again if the turn goes on."""
        self._kept: dict[str, KeptResult] = {}
        self._hidden: dict[str, set[str]] = {}
        self._count = 0

    def prepare(self, session: Session) -> None:
        """Let ADK make the held calls of a stored session again, and keep the results of those that had ended."""
        held = take_held(session)
        self._kept = {name: result for each in held for name, result in each.results.items()}
        self._hidden = hide_long_running(session.events, {name for each in held for name in each.ids})
        of_turn = [event for event in session.events if event.invocation_id == session.events[-1].invocation_id]
        answered = {response.id for event in of_turn for response in event.get_function_responses()}
        self.made_again = {call.id or "" for event in of_turn for call in event.get_function_calls()} - answered

    def begin_batch(self, ids: Collection[str], events: Sequence[Event]) -> set[str]:
        """Note that ADK makes these calls of one message together. Return those that wait for the client as well."""
        self._batched.update(ids)
        return show_long_running(events, self._hidden, ids)

    def begin_tool(self, tool: BaseTool, context: ToolContext) -> ToolRun:
        """Return a run of a tool call, which is the running one from here on."""
        call_id, outer = context.function_call_id or "", running_tool.get()
        if outer is not None:
            # An agent that is a tool runs again from its beginning, and its model gives each call another id.
            site = f"{outer.site}/{context.agent_name}/{tool.name}"
            run = ToolRun(call_id, site, outer.attempt, tool, context)
        else:
            self._count += 1
            run = ToolRun(call_id, f"tool/{call_id}", str(self._count), tool, context)
            run.may_stop = call_id in self._batched
            if (kept := self._kept.get(call_id)) is not None:
                run.kept = kept.value
                kept.restore(context.actions)
            self._runs[call_id] = run
        running_tool.set(run)
        return run

    def may_suspend(self, run: ToolRun) -> bool:
        """Return True if the tool may stop until it has what it waits for, because another process can run it again."""
        return run.may_stop and not self.is_workflow and self.can_resume()

    def runs(self, ids: Collection[str]) -> dict[str, ToolRun]:
        """Return the last runs of these calls."""
        return {name: self._runs[name] for name in ids if name in self._runs}

    def kept(self, call_id: str) -> KeptResult | None:
        """Return the kept result of a call that had ended when another call of its message waited."""
        return self._kept.get(call_id)

    def add(self, name: str, wait: AwaitedCall | datetime) -> None:
        """Note that the code with this name has stopped for a remote agent, or for a time."""
        if isinstance(wait, AwaitedCall):
            self._calls[name] = wait
        else:
            self._times[name] = wait

    def let_go(self) -> None:
        """Let go of the session after the end of the agent's code.

        Its asyncio timers, also those that are canceled, keep this object until their time: ten minutes for a request to a
        remote agent.
        """
        self.can_resume, self.stored = _never, tuple

    def ending(self) -> Suspended | None:
        """Return the end of the turn if something waits; None if nothing does."""
        if not self._calls and not self._times:
            return None
        names = [f"{name}/{call.key}" for name, call in self._calls.items()]
        names += [f"{name}/{time.isoformat()}" for name, time in self._times.items()]
        return suspended(names, list(self._times.values()), list(self._calls.values()))


def _never() -> bool:
    return False


turn_waits: ContextVar[TurnWaits | None] = ContextVar("aion_adk_turn_waits", default=None)
"""Waits of the running turn; None outside of a turn."""


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for ADK's warning that it leaves out calls without results, if this turn makes them again."""
    waits = turn_waits.get()
    return waits is None or not set(re.findall(r"'([^']*)'", record.getMessage())) <= waits.made_again


logging.getLogger("google_adk.google.adk.flows.llm_flows.tools._rearranger").addFilter(_is_news)
