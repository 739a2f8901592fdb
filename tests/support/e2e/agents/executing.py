"""Executor with several steps. Each step writes a line to a file, streams a chunk of an artifact, and waits."""

import asyncio
import os
from pathlib import Path

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

STEPS = ["one", "two", "three"]


class StepsExecutor(AgentExecutor):
    """Executor that runs the steps and completes the task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work(updater.new_agent_message([Part(text="Off we go.")]))
        for place, step in enumerate(STEPS):
            await updater.add_artifact([Part(text=f"{step} ")], artifact_id="steps", append=place > 0)
            with Path(os.environ["NOTED_IN"]).open("a") as notes:
                notes.write(f"{context.get_user_input()}-{step}\n")
            await asyncio.sleep(float(os.environ.get("STEP_SECONDS", "0.4")))
        await updater.complete(updater.new_agent_message([Part(text="Done.")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
