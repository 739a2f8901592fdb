"""Story of a task in sentences, from its event log, the log lines about it, and the steps of its turns. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aion_core.engine.records import Numbered
from aion_core.trace.line import duration_text
from aion_core.trace.rows import StoredTrace
from aion_tools.cli.documents import time_text
from aion_tools.cli.story.event import StoryEvent
from aion_tools.cli.story.event_log import told_by_log
from aion_tools.cli.story.log_lines import told_by_line
from aion_tools.cli.story.steps import told_by_traces

if TYPE_CHECKING:
    from aion_tools.deploy.logs import LogLine


_AT_END = datetime.max.replace(tzinfo=UTC)
WAIT_SECONDS = 1.0
"""Shortest wait, in seconds between a message and its turn, that the story states."""


def story_of(
    events: Iterable[Numbered],
    lines: Iterable["LogLine"],
    traces: Iterable[StoredTrace] = (),
    *,
    caller: str,
    agent: str,
    content: bool,
) -> list[StoryEvent]:
    """Return the task's story, oldest event first. `caller` describes the sender of the messages.

    With `content`, the sentences include the texts of people and agents.
    """
    recorded = list(told_by_log(list(events), caller, agent, content=content))
    logged = [found for line in lines for found in told_by_line(line)]
    steps = told_by_traces(traces, content=content)
    # Sort by time. An event precedes a log line of the same time (stable sort). Events without a time come last.
    story = sorted([*recorded, *logged, *steps], key=lambda each: (each.at or _AT_END, _rank(each)))
    return _folded(_with_waits(story))


def _rank(event: StoryEvent) -> int:
    """Return the place of an event among those of the same millisecond: a message, its turn's beginning, the steps."""
    if event.kind == "message":
        return 0
    if "tries" in event.details:
        return 1
    return 2 if event.kind == "step" else 3


def _with_waits(story: Sequence[StoryEvent]) -> list[StoryEvent]:
    """Add to the first turn after each message how long the message has waited, if it was at least WAIT_SECONDS."""
    told: list[StoryEvent] = []
    sent: datetime | None = None
    for each in story:
        if each.kind == "message" and "messageId" in each.details:
            sent = each.at
        elif each.kind == "turn" and "tries" in each.details and sent is not None and each.at is not None:
            waited = (each.at - sent).total_seconds()
            sent = None
            if waited >= WAIT_SECONDS:
                text = f"{each.text[:-1]}, {duration_text(waited * 1000)} after its message."
                told.append(StoryEvent(each.at, each.kind, text, {**each.details, "waitSeconds": round(waited, 3)}))
                continue
        told.append(each)
    return told


def _folded(story: Sequence[StoryEvent]) -> list[StoryEvent]:
    """Tell a warning or error once that was logged again while nothing else happened, such as a look that fails."""
    told: list[StoryEvent] = []
    since: dict[str, int] = {}  # places in `told` of the warnings since the last other event, by their texts
    for each in story:
        if each.kind not in ("warning", "error"):
            since.clear()
        elif each.text in since:
            first = told[since[each.text]]
            last = each.at.isoformat() if each.at else None
            told[since[each.text]] = replace(
                first, details={**first.details, "times": first.details.get("times", 1) + 1, "lastAt": last}
            )
            continue
        else:
            since[each.text] = len(told)
        told.append(each)
    return [_with_times(each) for each in told]


def _with_times(event: StoryEvent) -> StoryEvent:
    if "times" not in event.details:
        return event
    last = f", last at {time_text(datetime.fromisoformat(event.details['lastAt']))}" if event.details["lastAt"] else ""
    return replace(event, text=f"{event.text} ({event.details['times']} times{last})")
