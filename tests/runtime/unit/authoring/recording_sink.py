"""ReplySink that records its calls in order."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from aion_core.authoring.context import (
    AgentIdentity,
    AionContext,
    Event,
    Message,
    Thread,
    User,
)
from aion_core.authoring.types import A2AInbox
from aion_core.protocol import types as a2a
from aion_core.protocol.aion.extensions import EventKind


class RecordingSink:
    """ReplySink that records each call with its arguments in `told`; `kept` is the history that it returns."""

    def __init__(self, kept: Sequence[a2a.Message] = ()) -> None:
        self.told: list[tuple[str, Any]] = []
        self.kept = list(kept)
        self._ids = 0

    def next_message_id(self) -> str:
        self._ids += 1
        return f"r-{self._ids}"

    async def chunk(self, text: str, *, message_id: str, target: str | None) -> None:
        self.told.append(("chunk", (text, message_id, target)))

    def abort(self, message_id: str) -> None:
        self.told.append(("abort", message_id))

    def streaming(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def reply(self, message: a2a.Message, *, target: str | None) -> None:
        self.told.append(("reply", (message, target)))

    async def react(self, key: str, *, message_id: str) -> None:
        self.told.append(("react", (key, message_id)))

    async def typing(self) -> None:
        self.told.append(("typing", None))

    async def history(self, thread: Thread, *, limit: int, before: str | None) -> Sequence[Message]:
        ids = [message.message_id for message in self.kept]
        older = self.kept[: ids.index(before) if before else None]
        wrote = {a2a.Role.ROLE_USER: User("u-1"), a2a.Role.ROLE_AGENT: User("agent-1")}
        newest = older[-limit:] if limit else []
        return [Message(raw=message, user=wrote[message.role], thread=thread) for message in newest]

    @property
    def replies(self) -> list[a2a.Message]:
        return [given[0] for method, given in self.told if method == "reply"]

    @property
    def texts(self) -> list[str]:
        return ["".join(part.text for part in reply.parts) for reply in self.replies]

    @property
    def chunks(self) -> list[str]:
        return [given[0] for method, given in self.told if method == "chunk"]


def a_turn(sink: RecordingSink, text: str | None = "hello", kind: EventKind = "message") -> AionContext:
    """Return the context of a turn. If `text` is None, the turn has no message."""
    raw = a2a.Message(message_id="m-1", role=a2a.Role.ROLE_USER, parts=[a2a.Part(text=text or "")])
    thread = Thread(id="c-1", sink=sink, network="slack", default_reply_target="dm-7")
    return AionContext(
        inbox=A2AInbox(task=a2a.Task(id="t-1", context_id="c-1"), message=raw, metadata={"trace": "x"}),
        thread=thread,
        message=None if text is None else Message(raw=raw, user=User("u-1"), thread=thread),
        event=Event(kind, {"name": kind}),
        self=AgentIdentity("agent-1", "Ada"),
    )
