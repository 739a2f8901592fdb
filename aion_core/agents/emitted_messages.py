"""Messages that a turn has emitted."""

from aion_core.agents.addressing import parts_without_target
from aion_core.agents.emission_ids import FINAL, REPLY, deterministic_id
from aion_core.engine.agent import AgentMessage, TurnRequest
from aion_core.protocol.aion.actions import without_target
from aion_core.protocol.types import Message, Role, TaskStatusUpdateEvent


class EmittedMessages:
    """Durable messages that one turn has emitted, by idempotency key and by message id."""

    def __init__(self, request: TurnRequest) -> None:
        self._request = request
        self.replies: list[Message] = []
        """Durable replies of this turn, in order."""
        self.reply: Message | None = None
        """Last durable reply of this turn, which is the turn's answer."""
        self.intermediate: Message | None = None
        """Last intermediate message of this turn, before its final emissions."""
        self._by_key: dict[str, Message] = {}
        """Messages of this turn, by idempotency key."""
        self._by_id = _earlier_messages(request)
        """Agent messages of the task, by message id."""
        self._before = frozenset(self._by_id)
        """Ids of the task's agent messages before this turn."""
        for entry in request.recorded:
            # Include messages recorded by an earlier attempt, because nodes that finished then do not run again.
            if entry.key and isinstance(entry.event, TaskStatusUpdateEvent) and entry.event.status.HasField("message"):
                self._remember(entry.event.status.message, entry.key)

    def emit(self, given: Message, key: str) -> AgentMessage | None:
        """Return the emission of a message; None if the task has the message already.

        If this turn has emitted a message with the same key, return that message again, so that it keeps its id.
        """
        message = self._by_key.get(key) or self._new(given, key)
        if message is None:
            return None
        self._remember(message, key)
        return AgentMessage(message, key)

    def get(self, key: str) -> Message | None:
        """Return the message that this turn has emitted with this idempotency key, or None."""
        return self._by_key.get(key)

    def has(self, message_id: str) -> bool:
        """Return True if the task has a message of the agent with this id."""
        return message_id in self._by_id

    def recorded_as(self, prefix: str) -> dict[str, Message]:
        """Return the messages of this turn whose idempotency keys begin with `prefix`, by key."""
        return {key: message for key, message in self._by_key.items() if key.startswith(prefix)}

    def is_by_author(self, message: Message) -> bool:
        """Return True if the author's code has sent a message with the same parts in this turn, under any id."""
        return any(self.are_alike(each, message) for key, each in self._by_key.items() if not key.startswith(FINAL))

    def last_by_author(self, like: Message) -> Message | None:
        """Return the last message that the author's code has sent in this turn, if its parts are those of `like`."""
        sent = [message for key, message in self._by_key.items() if not key.startswith(FINAL)]
        return sent[-1] if sent and self.are_alike(sent[-1], like) else None

    def has_other(self, message_id: str, message: Message) -> bool:
        """Return True if the task has a message with this id but other parts."""
        known = self._by_id.get(message_id)
        return known is not None and not self.are_alike(known, message)

    def are_alike(self, one: Message, other: Message) -> bool:
        """Return True if two messages have the same parts, apart from the target that a recorded message has got."""
        return parts_without_target(one, self._request) == parts_without_target(other, self._request)

    def _new(self, given: Message, key: str) -> Message | None:
        """Return a copy of the message with an id that is unique in the task; None if it was emitted before."""
        message = Message()
        message.CopyFrom(given)
        message.message_id = given.message_id or deterministic_id(self._request.task.id, key)
        known = self._by_id.get(message.message_id)
        if known is None:
            return message
        # Emit nothing if an interrupted node runs again and so repeats its generated ids or the ids of its replies. The
        # client has received these messages before the interrupt, perhaps with another text.
        if not given.message_id or (key.startswith(REPLY) and message.message_id in self._before):
            return None
        if self.are_alike(known, message):
            return None
        # Use another id, because clients identify messages by id and would ignore a second message with the same id.
        message.message_id = deterministic_id(message.message_id, self._request.task.id, key)
        return message

    def _remember(self, message: Message, key: str) -> None:
        self._by_id[message.message_id] = message
        if key:
            self._by_key[key] = message
        if key.startswith(REPLY):
            self.reply = message
            if all(each.message_id != message.message_id for each in self.replies):
                self.replies.append(message)
        elif not key.startswith(FINAL):
            self.intermediate = message


def _earlier_messages(request: TurnRequest) -> dict[str, Message]:
    """Return the agent's messages in the task's history before the turn's message, by id."""
    messages: dict[str, Message] = {}
    for message in request.task.history:
        if message.message_id == request.message.message_id:
            return messages
        if message.role == Role.ROLE_AGENT:
            # Each turn has its own target.
            messages[message.message_id] = without_target(message)
    return {}
