"""An a2a-sdk AgentExecutor that sums up a table: send CSV as text or as a file. No key, no network, no import of ours."""

import asyncio
import csv
import statistics

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

ASK = "Send me a table as CSV, as text or as a file: a line of names, then a line for each row."


class TableExecutor(AgentExecutor):
    """Sums up each column; asks for a table where the message holds none."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer with one artifact, a line for each column, written as it is found."""
        assert context.task_id  # noqa: S101  # the server gives every request both
        assert context.context_id  # noqa: S101
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        rows = list(csv.reader(table_of(context).splitlines()))
        if len(rows) < 2:
            await updater.requires_input(updater.new_agent_message([Part(text=ASK)]))
            return
        names, *lines = rows
        await updater.start_work(updater.new_agent_message([Part(text=f"Reading {len(lines)} rows.")]))
        for place, name in enumerate(names):
            # Off the event loop: a long column holds nobody up.
            summary = await asyncio.to_thread(summed_up, [line[place] for line in lines if place < len(line)])
            await updater.add_artifact(
                [Part(text=f"{name}: {summary}\n")],
                artifact_id="summary",
                name="summary.txt",
                append=place > 0,
                last_chunk=place == len(names) - 1,
            )
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing is held elsewhere that would have to be let go."""


def table_of(context: RequestContext) -> str:
    """Return the message's CSV: its first file, else its text."""
    parts = context.message.parts if context.message else []
    files = [part.raw.decode(errors="replace") for part in parts if part.WhichOneof("content") == "raw"]
    return files[0] if files else context.get_user_input()


def summed_up(column: list[str]) -> str:
    """Return a few words on a column: its numbers' range and mean, else how many different values it has."""
    try:
        numbers = [float(cell) for cell in column]
    except ValueError:
        return f"{len(set(column))} different values"
    return f"{min(numbers):g} to {max(numbers):g}, {statistics.fmean(numbers):g} on average" if numbers else "empty"


executor = TableExecutor()
