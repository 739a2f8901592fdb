"""An agent as an AgentExecutor of the a2a-sdk: any Python code that answers a message. It needs no key."""

import re
from collections.abc import AsyncIterator

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part


async def answer(text: str) -> AsyncIterator[str]:
    """Yield the answer to a text, a word at a time.

    A real model goes here: `uv run aion add openai`, OPENAI_API_KEY in .env, and what its stream yields.
    """
    for word in re.findall(r"\s*\S+", f"Your message has {len(text.split())} words."):
        yield word


class Agent(AgentExecutor):
    """Streams each answer as an artifact while it is written, and ends its task with the whole as a message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer the message of the request; the task is completed, or asks for a text."""
        # The server gives every request both ids.
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        text = context.get_user_input()
        if not text:
            await updater.requires_input(updater.new_agent_message([Part(text="Send me some text.")]))
            return
        await updater.start_work()
        written = ""
        async for word in answer(text):
            await updater.add_artifact([Part(text=word)], artifact_id="answer", name="answer.txt", append=bool(written))
            written += word
        await updater.complete(updater.new_agent_message([Part(text=written)]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Release what the turn holds elsewhere: nothing here."""


executor = Agent()
