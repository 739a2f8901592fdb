"""An agent that does what it is told: it answers, asks back, or works until it is let go."""

import asyncio
from collections.abc import AsyncGenerator

from aion_core.ports import Chunk, Emission, InputRequired, Reply, TurnRequest
from aion_core.protocol.types import Message, Part


class Obedient:
    """Does by the first word of a message: `ask` asks back once, `work` waits to be let go, anything else is echoed."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.works = asyncio.Event()

    def load(self) -> None:
        """Nothing to import."""

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
        # The answer has its message's id, so that the same message gets the same answer, wherever and whenever.
        yield Reply(Message(message_id=f"answer-{asked.message.message_id}", parts=[Part(text=text)]))
