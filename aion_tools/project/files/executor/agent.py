"""An agent as an `AgentExecutor` of the a2a-sdk. `answer` may be any Python code; this one needs no API key."""

import re
from collections.abc import AsyncIterator

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part


async def answer(text: str) -> AsyncIterator[str]:
    """Yield the answer to a text, word by word.

    Call a real model here: run `uv run aion add openai`, put OPENAI_API_KEY into .env, and yield the text of its stream.
    """
    count = len(text.split())
    for word in re.findall(r"\s*\S+", f"Your message has {count} {'word' if count == 1 else 'words'}."):
        yield word


class WordCounter(AgentExecutor):
    """Streams each answer as an artifact, then completes the task with the whole answer as its message."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer the message; for an empty message, ask for a text."""
        # The server sets task_id and context_id in every request.
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
        """Stop the work on a canceled task; the server cancels `execute` by itself."""


executor = WordCounter()
