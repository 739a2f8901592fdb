"""Agents that a test controls: they wait until the test continues them, and record their work."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

from aion_core.engine.agent import AgentMessage, Chunk, Emission, InputRequired, Paused, Reply, TurnRequest
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.protocol.types import Message, Part


def says(text: str) -> Message:
    return Message(message_id=f"said-{text}", parts=[Part(text=text)])


class GatedAgent:
    """Agent that streams one word, waits until the test sets `go`, and answers with an echo."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.spoke = asyncio.Event()
        self.asked: list[str] = []
        self.stopped = 0

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        text = asked.message.parts[0].text
        self.asked.append(text)
        try:
            yield Chunk("word", f"call-{text}")
            self.spoke.set()
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        yield Reply(says(f"answer to {text}"))


class Stubborn(GatedAgent):
    """Agent that ignores its cancellation."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.spoke.set()
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.stopped += 1
        yield AgentMessage(says("still talking"))
        yield Reply(says("and answering"))


class AskingAgent:
    """Agent that asks a question first, and answers in the resumed turn."""

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    def profile(self) -> AgentProfile:
        """See `Agent.profile`."""
        return UNKNOWN

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        if asked.turn.message_generation == 1:
            yield InputRequired(says("really?"))
        else:
            yield Reply(says(f"{asked.message.parts[0].text} it is"))


class Stepping:
    """Agent that emits a message in each step; after a drain request it suspends between two steps, as a graph does.

    A resumed turn finds its finished steps in the recorded events, as a graph finds them in its checkpoint.
    """

    def __init__(self, steps: int, clock_sleep: float, clock: object) -> None:
        self.steps, self._seconds, self._clock = steps, clock_sleep, clock
        self.ran: Counter[int] = Counter()
        self.handoffs: list[int] = []

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        self.handoffs.append(asked.turn.handoffs)
        done = sum(entry.key.startswith("step") for entry in asked.recorded)
        for step in range(done, self.steps):
            if asked.drain.is_set():
                yield Paused()
                return
            self.ran[step] += 1
            await self._clock.sleep(self._seconds)  # type: ignore[attr-defined]
            yield AgentMessage(says(f"step {step}"), key=f"step/{step}")
        yield Reply(says("done"))
