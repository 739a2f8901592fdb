"""Exception hierarchy.

AionError
├── ClientError                  the client must change its request; `protocol.errors` maps each to its code
│   ├── InvalidMessage           a field is missing, empty or contradicts another
│   ├── TaskNotFound             the caller has no task with this id
│   ├── ContextNotFound          the caller has no context with this id
│   ├── PushConfigNotFound       the task has no push config with this id
│   ├── TaskFinished             the task is terminal and accepts no more messages
│   ├── TaskNotCancelable        the task is terminal and cannot be canceled
│   ├── InputNotRequired         the message answers a question, but no question waits for an answer
│   ├── MessageIdReused          a message with this messageId and other content exists in this context
│   ├── ContextBusy              too many turns wait in this context
│   ├── ContentTypeNotSupported  the agent does not accept the media type
│   ├── NotSupported             the agent does not offer the operation
│   ├── NoExtendedCard           the agent declares an extended card but has none
│   ├── PushNotSupported         this agent sends no push notifications
│   ├── TooManyPushConfigs       the task has reached its limit of push configs
│   └── TooManyRequests          the caller has reached a limit of the deployment
├── StoreError                   the queue delivers the message again; the log has the details
│   ├── StoreUnavailable         throttled, unreachable or timed out; a retry may help
│   ├── TableMissing             the table was deleted; the operator must restore it
│   ├── OtherLayout              the table's items have another layout; the operator must recreate the stack
│   ├── StoreCorrupt             the log has a gap or an unreadable record
│   └── UnreadableWakeUp         the queue message is not a wake-up message, or has another version
├── WebhookBlocked               the webhook's address is not allowed
├── ClaimLost                    another process delivers to this webhook, or its config is deleted: stop
├── LeaseLost                    another process holds the context's lease: stop
├── PendingInput                 a message is waiting for the ending task: the task continues
├── InvalidTransition            the new state of a task cannot follow its current one
├── AgentFailed                  the task becomes `failed`, with a safe reason
│   └── RemoteAgentError         a remote agent has not answered; the author may catch it
│       ├── RemoteAgentFailed    its task has failed, or was rejected or canceled
│       ├── RemoteAgentRefused   it does not accept the message
│       └── RemoteAgentUnreachable  it cannot be reached, or no longer knows the task
└── ConfigurationError           the operator must correct the settings or aion.yaml; raised at start
    └── AgentLoadError           the author must correct the agent's code
"""

from typing import Self


class AionError(Exception):
    """Base class of aion's exceptions. The text is a sentence and has no confidential details."""


class ClientError(AionError):
    """Base class of errors in a request. The text tells the client how to correct the request."""


class InvalidMessage(ClientError):
    """A field of the request is missing, empty or contradicts another field.

    `field` is the path of this field in protocol names, such as `message.parts[0]`.
    """

    def __init__(self, sentence: str, *, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


class TaskNotFound(ClientError):
    """The caller has no task with this id. Other callers' tasks are treated as missing (A2A 3.3.2)."""

    def __init__(self, task_id: str) -> None:
        super().__init__("Task not found. Check the id; a message without taskId begins a new task.")
        self.task_id = task_id


class ContextNotFound(ClientError):
    """The caller has no context with this id. Other callers' contexts are treated as missing."""

    def __init__(self, context_id: str) -> None:
        super().__init__("There is no context with this id. Check the id; GetContexts lists yours.")
        self.context_id = context_id


class PushConfigNotFound(ClientError):
    """The caller's task has no push config with this id (A2A 3.1.8)."""

    def __init__(self, config_id: str) -> None:
        super().__init__(
            "There is no push notification config with this id. Check the id; ListTaskPushNotificationConfigs lists "
            "those of the task."
        )
        self.config_id = config_id


class TaskFinished(ClientError):
    """The task is in a terminal state and accepts no message (A2A 3.1.1)."""


class TaskNotCancelable(ClientError):
    """The task is in a terminal state and cannot be cancelled (A2A 3.1.5)."""


class InputNotRequired(ClientError):
    """The message answers a question, but its task or context has no question that waits for an answer."""


class MessageIdReused(ClientError):
    """A message with this messageId and other content exists in this context."""


class ContextBusy(ClientError):
    """The context has reached its limit of queued turns."""


class ContentTypeNotSupported(ClientError):
    """The agent or the endpoint does not accept this media type."""


class NotSupported(ClientError):
    """The agent does not offer this operation."""


class NoExtendedCard(ClientError):
    """The agent declares an extended card, but none is configured (A2A 3.1.11)."""


class PushNotSupported(ClientError):
    """The agent sends no push notifications."""


class TooManyPushConfigs(ClientError):
    """The task has reached its limit of push configs."""


class TooManyRequests(ClientError):
    """The caller has reached a limit of the deployment. `seconds` is the time to wait before a retry."""

    def __init__(self, sentence: str, *, seconds: int) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class StoreError(AionError):
    """A request to the store or a queue failed."""


class StoreUnavailable(StoreError):
    """The store or queue is throttled or unreachable, or the request timed out. A retry may succeed."""


class TableMissing(StoreError):
    """The deployment's table does not exist. The text names the table."""


class OtherLayout(StoreError):
    """The deployment's table has items of another layout than this version of aion reads. The text names the table."""


class StoreCorrupt(StoreError):
    """A task's event log has a gap, or a stored record is unreadable. The store never returns an incomplete task."""


class UnreadableWakeUp(StoreError, ValueError):
    """The queue message is not a wake-up message, or has another version. SQS moves it to the dead letter queue."""


class WebhookBlocked(AionError):
    """The webhook's URL or address is not allowed. Messages show the text after "url:" or "blocked:"."""


class ClaimLost(AionError):
    """Another process delivers for this push config, or it was deleted or replaced. This process must stop."""


class LeaseLost(AionError):
    """Another process has taken over the lease of the context. The store refuses all further writes of this turn."""


class PendingInput(AionError):
    """A message is queued for the task, so this turn must leave the task in state `working`."""


class InvalidTransition(AionError):
    """The task's current state does not allow the new state. Nothing was stored."""


class AgentFailed(AionError):
    """The agent could not finish its turn, so its task fails. Only the log and `aion dev` show the note, not clients."""

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__(text)
        if note:
            self.add_note(note)


class RemoteAgentError(AgentFailed):
    """A remote agent that the agent has called has not answered. `agent` is its name in aion.yaml or its URL.

    `reason` is what the remote agent says, or how it was tried to reach. If the author's code does not catch the error,
    the caller's task fails with its text.
    """

    def __init__(self, text: str, *, agent: str, reason: str = "") -> None:
        super().__init__(text)
        self.agent, self.reason = agent, reason


class RemoteAgentFailed(RemoteAgentError):
    """The remote agent's task has ended without an answer. `state` is `failed`, `rejected` or `canceled`."""

    def __init__(self, *, agent: str, state: str, reason: str = "") -> None:
        said = {"canceled": "has canceled its task", "rejected": "has rejected the message"}.get(state, "has failed")
        super().__init__(f"The agent {agent} {said}{f': {reason}' if reason else '.'}", agent=agent, reason=reason)
        self.state = state


class RemoteAgentRefused(RemoteAgentError):
    """The remote agent does not accept the message: its credentials, its form, or the remote agent's card."""


class RemoteAgentUnreachable(RemoteAgentError):
    """The remote agent could not be reached for too long, or no longer knows the task that it had begun."""


CANCELED_ITSELF = "The agent canceled its own work."
"""Reason of AgentFailed for an agent that raises CancelledError although nobody canceled its turn."""


class ConfigurationError(AionError):
    """A setting or a line of aion.yaml is invalid. The text names it."""


class AgentLoadError(ConfigurationError):
    """An agent's code cannot be loaded.

    `what` is the problem, `where` the author's file and line, `source` the text of that line, and `do` the remedy as a
    whole sentence. `agent_id` and `path` come from aion.yaml, once they are known.
    """

    def __init__(
        self, what: str, *, where: str = "", source: str = "", do: str = "", agent_id: str = "", path: str = ""
    ) -> None:
        self.what, self.where, self.source, self.do = what.rstrip("."), where, source, do
        self.agent_id, self.path = agent_id, path
        subject = f"Agent {agent_id!r}: " if agent_id else ""
        place = f" ({where})" if where else ""
        super().__init__(f"{subject}{self.what}{place}.{f' {do}' if do else ''}")

    def of_agent(self, agent_id: str, path: str) -> Self:
        """Return the same error with the id of its agent and the path in aion.yaml."""
        return type(self)(
            self.what, where=self.where, source=self.source, do=self.do, agent_id=agent_id, path=path
        ).with_traceback(self.__traceback__)

    def screen(self) -> str:
        """Return the error as a few lines of text for a terminal, without a final line break."""
        head = f"Agent {self.agent_id!r} ({self.path}) cannot be loaded." if self.agent_id else "It cannot be loaded."
        rows = [("what", self.what), ("where", self.where), ("", self.source), ("do", self.do)]
        return "\n".join([head, "", *(f"  {name:5}  {text}" for name, text in rows if text)])
