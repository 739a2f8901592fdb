"""An agent as an `AgentExecutor` of the a2a-sdk. It asks OpenAI if OPENAI_API_KEY is set; without a key, it counts words."""

import os
from collections.abc import AsyncIterator

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part


async def answer(text: str) -> AsyncIterator[str]:
    """Yield the pieces of the answer to a text."""
    if os.environ.get("OPENAI_API_KEY"):
        from openai import AsyncOpenAI  # its package: `uv add openai`

        async for event in await AsyncOpenAI().responses.create(model="gpt-5-mini", input=text, stream=True):
            if event.type == "response.output_text.delta":
                yield event.delta
    else:
        count = len(text.split())
        yield "Your message has "
        yield "1 word." if count == 1 else f"{count} words."


class WordCounter(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work()
        begun = False
        async for piece in answer(context.get_user_input()):
            await updater.add_artifact([Part(text=piece)], artifact_id="answer", append=begun)
            begun = True
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the work on a canceled task; the server cancels `execute` by itself."""


executor = WordCounter()
