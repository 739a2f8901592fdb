"""AgentExecutor of the a2a-sdk that summarises a CSV table, sent as text or file. No key, no network, no import of aion."""

import asyncio
import csv
import statistics

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

ASK = "Send me a table as CSV, as text or as a file: a line of names, then a line for each row."


class TableExecutor(AgentExecutor):
    """Executor that summarises each column of a CSV table, or asks for a table if the message has none."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stream one artifact with a line for each column."""
        assert context.task_id  # noqa: S101  # the server sets task_id and context_id of every request
        assert context.context_id  # noqa: S101
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        rows = list(csv.reader(table_of(context).splitlines()))
        if len(rows) < 2:
            await updater.requires_input(updater.new_agent_message([Part(text=ASK)]))
            return
        names, *lines = rows
        await updater.start_work(updater.new_agent_message([Part(text=f"Reading {len(lines)} rows.")]))
        for place, name in enumerate(names):
            # Summarise the column in a thread, because a long column must not block the event loop.
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
        """Do nothing: the agent holds no external resources."""


def table_of(context: RequestContext) -> str:
    """Return the CSV text of the message: the content of its first file, else its text."""
    parts = context.message.parts if context.message else []
    files = [part.raw.decode(errors="replace") for part in parts if part.WhichOneof("content") == "raw"]
    return files[0] if files else context.get_user_input()


def summed_up(column: list[str]) -> str:
    """Return a short summary of a column: range and mean of its numbers, or else the number of distinct values."""
    try:
        numbers = [float(cell) for cell in column]
    except ValueError:
        return f"{len(set(column))} different values"
    return f"{min(numbers):g} to {max(numbers):g}, {statistics.fmean(numbers):g} on average" if numbers else "empty"


executor = TableExecutor()
