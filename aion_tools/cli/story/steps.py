"""Story of a task by the recorded steps of its turns: nodes, model calls and tool calls. Pure."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from aion_core.trace.line import line_of
from aion_core.trace.rows import StoredTrace
from aion_core.trace.step import Kind
from aion_tools.cli.story.event import StoryEvent

WIDTH = 90
"""Longest line of a step, with its indentation."""

_TOLD = (Kind.RETRY, Kind.HANDOFF, Kind.WAIT, Kind.TAKEOVER)
"""Kinds of steps that the log lines tell in sentences."""


def told_by_traces(traces: Iterable[StoredTrace], *, content: bool) -> Iterator[StoryEvent]:
    """Yield a line for each step, indented beneath the step around it. With `content`, it quotes tools' values."""
    for trace in traces:
        depths = {0: -1}
        for step in trace.steps:
            depths[step.id] = depth = depths.get(step.parent, 0) + 1
            if depth == 0 or step.kind in _TOLD:
                continue  # the story has a sentence for the turn itself
            indent = "  " * depth
            text = indent + line_of(step, content=content, width=WIDTH - len(indent))
            details = msgspec.to_builtins(step)
            if not content:
                details = {name: value for name, value in details.items() if name not in ("arguments", "result")}
            yield StoryEvent(
                datetime.fromtimestamp(int(step.at) / 1000, UTC), "step", text, {"turn": trace.turn_id, "step": details}
            )
        if trace.dropped and trace.steps:
            at = datetime.fromtimestamp(int(trace.steps[-1].at) / 1000, UTC)
            yield StoryEvent(at, "step", f"  and {trace.dropped} more steps, which were not recorded")
