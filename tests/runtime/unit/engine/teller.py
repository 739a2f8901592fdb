"""Agent controlled by its message's text: each word of the text names an event of the turn."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator

from aion_core.engine.agent import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    AgentTyping,
    Chunk,
    Emission,
    InputRequired,
    Reply,
    TurnRequest,
)
from aion_core.protocol.types import Artifact, Message, Part, TaskState


class Teller:
    """Agent that answers `answer to …`, and before that emits the events named in the message's text."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        """Continues a `slow` turn."""
        self.began = asyncio.Event()
        self.runs: Counter[str] = Counter()

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        text = asked.message.parts[0].text
        self.runs[text] += 1
        self.began.set()
        answer = Message(message_id=f"a-{text}", parts=[Part(text=f"answer to {text}")])
        file = Artifact(artifact_id="file", name="report", parts=[Part(raw=b"\0\xff", media_type="image/png")])
        for word in text.split():
            match word:
                case "slow":
                    await self.go.wait()
                case "chunks":
                    yield Chunk("answer ", "call")
                    yield Chunk(f"to {text}", "call")
                case "spoken":
                    speaker = {"messageId": answer.message_id, "node": "n"}
                    yield Chunk("answer ", answer.message_id, speaker=speaker)
                    yield Chunk(f"to {text}", answer.message_id, speaker=speaker)
                case "replied":
                    yield AgentMessage(answer, key="reply:1")
                case "meanwhile":
                    yield AgentMessage(Message(message_id=f"m-{text}", parts=[Part(text="one moment")]), key="said:1")
                case "file":
                    yield AgentArtifact(file, key="file:1")
                case "note":
                    yield AgentMetadata({"mood": "good"}, key="note:1")
                case "types":
                    yield AgentTyping()
                case "decorated":
                    answer.metadata.update({"mood": "better"})
                    answer.parts.append(Part(raw=b"\1", media_type="image/gif", filename="b.gif"))
                case "asks" if asked.turn.message_generation == 1:
                    yield InputRequired(Message(message_id=f"q-{text}", parts=[Part(text="which?")]))
                    return
                case "fails":
                    raise RuntimeError("the secret reason")
                case "rejects":
                    yield Reply(answer, TaskState.TASK_STATE_REJECTED)
                    return
                case "silent":
                    yield Reply(None)
                    return
                case "empty":
                    yield Reply(Message(message_id=f"a-{text}"))
                    return
                case "patched":
                    yield Reply(answer, metadata={"mood": "patched"})
                    return
        yield Reply(answer)
