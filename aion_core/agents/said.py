"""Which messages a turn has said, so that none of them is said twice: not by a node that runs again, nor by its end."""

import uuid

from aion_core.ports import Asked, Said
from aion_core.protocol.types import Message, Role, TaskStatusUpdateEvent

REPLY = "reply:"
"""What the key of a durable reply begins with, to be known among what was recorded."""
REST = "rest:"
"""What the key begins with of what is said when the graph has ended, or asks."""

_IDS = uuid.UUID("5d3c9c5e-59a4-4a0f-9f0b-2f6d1c0f7e11")
"""The namespace of the ids that are made again where the same is said again."""


class SaidMessages:
    """The durable messages of one turn, by their keys and ids."""

    def __init__(self, asked: Asked) -> None:
        self._task_id = asked.task.id
        self.replies: list[Message] = []
        """The durable replies, in order."""
        self.reply: Message | None = None
        """The one that was said last, which is the turn's answer (D5)."""
        self.emitted: Message | None = None
        """The last message that is none of the replies."""
        self._by_key: dict[str, Message] = {}
        """What this turn has said."""
        self._by_id = _said_before(asked)
        """What the task has said."""
        self._before = frozenset(self._by_id)
        """The ids of what it had said before this turn."""
        for entry in asked.recorded:
            # What an earlier try of this turn has said is said; its nodes may not run again to say it.
            if entry.key and isinstance(entry.event, TaskStatusUpdateEvent) and entry.event.status.HasField("message"):
                self._remember(entry.event.status.message, entry.key)

    def say(self, given: Message, key: str) -> Said | None:
        """Return the message as it is to be recorded, None where it was said before.

        What has this key in the log already, since its node runs again, is returned as it is there.
        """
        message = self._by_key.get(key) or self._new(given, key)
        if message is None:
            return None
        self._remember(message, key)
        return Said(message, key)

    def under(self, key: str) -> Message | None:
        """Return what this turn has said under the key, None where it has not."""
        return self._by_key.get(key)

    def holds(self, message: Message) -> bool:
        """Tell whether this turn has said the same, under whichever id."""
        return any(list(said.parts) == list(message.parts) for said in self._by_key.values())

    def _new(self, given: Message, key: str) -> Message | None:
        """Return a copy with an id that no other message of the task has, None where it was said before."""
        message = Message()
        message.CopyFrom(given)
        message.message_id = given.message_id or made_id(self._task_id, key)
        known = self._by_id.get(message.message_id)
        if known is None:
            return message
        # An id that was made for its key, and a reply's of an earlier turn, come again where the node runs again that
        # asked: it has said this before its question, if in other words.
        if not given.message_id or (key.startswith(REPLY) and message.message_id in self._before):
            return None
        if known.parts == message.parts:
            return None
        # A task's messages are told apart by their ids: under the id of another one this would be lost.
        message.message_id = made_id(message.message_id, self._task_id, key)
        return message

    def _remember(self, message: Message, key: str) -> None:
        self._by_id[message.message_id] = message
        if key:
            self._by_key[key] = message
        if key.startswith(REPLY):
            self.reply = message
            if all(said.message_id != message.message_id for said in self.replies):
                self.replies.append(message)
        elif not key.startswith(REST):
            self.emitted = message


def made_id(*names: str) -> str:
    """Return an id that is the same whenever it is made of the same names."""
    return str(uuid.uuid5(_IDS, "\0".join(names)))


def _said_before(asked: Asked) -> dict[str, Message]:
    """Return what the agent said in the task before the turn's message, by its id."""
    said: dict[str, Message] = {}
    for message in asked.task.history:
        if message.message_id == asked.message.message_id:
            return said
        if message.role == Role.ROLE_AGENT:
            said[message.message_id] = message
    return {}
