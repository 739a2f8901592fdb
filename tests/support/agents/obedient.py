"""Agent controlled by its messages: it answers, asks back, or works until its release."""

import asyncio
from collections.abc import AsyncGenerator

from aion_core.engine.agent import Chunk, Emission, InputRequired, Reply, TurnRequest
from aion_core.protocol.types import Message, Part


class Obedient:
    """Agent controlled by a message's first word: `ask` asks one question, `work` waits for a release, others echo."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.works = asyncio.Event()

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        text = asked.message.parts[0].text if asked.message.parts else ""
        if text == "ask" and asked.turn.message_generation == 1:
            yield InputRequired(
                Message(message_id=f"question-{asked.message.message_id}", parts=[Part(text="really?")])
            )
            return
        if text == "work":
            yield Chunk("on it ", "said-work")
            self.works.set()
            await self.go.wait()
        # Derive the answer's id from the message's id, so that a message gets the same answer in every process.
        yield Reply(Message(message_id=f"answer-{asked.message.message_id}", parts=[Part(text=text)]))
