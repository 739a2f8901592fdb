"""Story of a task in sentences, from its event log and from the log lines about it. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aion_core.engine.records import Numbered
from aion_tools.cli.story.event import StoryEvent, duration_text
from aion_tools.cli.story.event_log import told_by_log
from aion_tools.cli.story.log_lines import told_by_line

if TYPE_CHECKING:
    from aion_tools.deploy.logs import LogLine


_AT_END = datetime.max.replace(tzinfo=UTC)
WAIT_SECONDS = 1.0
"""Shortest wait, in seconds between a message and its turn, that the story states."""


def story_of(
    events: Iterable[Numbered], lines: Iterable["LogLine"], *, caller: str, agent: str, content: bool
) -> list[StoryEvent]:
    """Return the task's story, oldest event first. `caller` describes the sender of the messages.

    With `content`, the sentences include the texts of people and agents.
    """
    recorded = list(told_by_log(list(events), caller, agent, content=content))
    logged = [found for line in lines for found in told_by_line(line)]
    # Sort by time. An event precedes a log line of the same time (stable sort). Events without a time come last.
    story = sorted([*recorded, *logged], key=lambda each: each.at or _AT_END)
    return _with_waits(story)


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
