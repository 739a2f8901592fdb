"""The tree of what can go wrong, sorted by who must act.

AionError
├── ClientError                  the client mends its request; `protocol.errors` gives each its code
│   ├── InvalidMessage           a field is missing, empty or contradicts another
│   ├── TaskNotFound             no task has this id, or it is not the caller's to see
│   ├── ContextNotFound          no context has this id, or it is not the caller's to see
│   ├── PushConfigNotFound       the task, which is there, has no push config of this id
│   ├── TaskFinished             the task is terminal and takes no more messages
│   ├── TaskNotCancelable        the task is terminal and cannot be canceled
│   ├── MessageIdReused          this messageId already carries other content in this context
│   ├── ContextBusy              too many turns wait in this context
│   ├── ContentTypeNotSupported  a media type that the agent does not take
│   ├── NotSupported             the operation is not offered by this agent
│   ├── NoExtendedCard           the agent offers an extended card, and has none
│   ├── PushNotSupported         this agent sends no push notifications
│   ├── TooManyPushConfigs       the task has as many push configs as it may have
│   └── TooManyRequests          the caller has asked for as much as the deployment allows
├── StoreError                   the queue delivers again, the operator reads the log
│   ├── StoreUnavailable         throttled, unreachable or timed out; trying again may help
│   ├── StoreCorrupt             the log has a gap, or a record cannot be read
│   └── UnreadableWakeUp           a message of the queue is no bell, or one of another version
├── WebhookBlocked               nobody may call this webhook: the guard says why
├── ClaimLost                    another delivers to this webhook, or its config is gone: stop
├── LeaseLost                    another holder has the context: stop, and say nothing more
├── PendingInput                    a message waits for the task that was about to end: it goes on
├── InvalidTransition                  a task was to enter a state that may not follow the one it is in
├── AgentFailed                  nobody acts: the task becomes `failed`, with a safe reason
└── ConfigurationError           the operator mends the settings or aion.yaml; named at start
    └── AgentLoadError           the author mends the agent's code: what is wrong, where, and what to do
"""

from typing import Self


class AionError(Exception):
    """Whatever aion itself raises on purpose; its text is one sentence, safe to show to whom it concerns."""


class ClientError(AionError):
    """The request cannot be served as it is; the sentence says what to mend."""


class InvalidMessage(ClientError):
    """A field of the request is missing, empty or contradicts another.

    `field` is its path in the wire's own names, such as `message.parts[0]`.
    """

    def __init__(self, sentence: str, *, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


class TaskNotFound(ClientError):
    """No task has this id, or it is not the caller's to see; the two are told apart by nobody (spec 3.3.2)."""

    def __init__(self, task_id: str) -> None:
        super().__init__("There is no task with this id. Check the id; a message without taskId begins a new task.")
        self.task_id = task_id


class ContextNotFound(ClientError):
    """No task is known of a context of this id, or they are not the caller's to see; the two are told apart by nobody."""

    def __init__(self, context_id: str) -> None:
        super().__init__("There is no context with this id. Check the id; GetContexts lists yours.")
        self.context_id = context_id


class PushConfigNotFound(ClientError):
    """The caller's task has no push config of this id (spec 3.1.8)."""

    def __init__(self, config_id: str) -> None:
        super().__init__(
            "The task has no push notification config with this id. Check the id; ListTaskPushNotificationConfigs lists "
            "those that it has."
        )
        self.config_id = config_id


class TaskFinished(ClientError):
    """The task is in a terminal state; nothing may follow it (spec 3.1.1, R45)."""


class TaskNotCancelable(ClientError):
    """The task is in a terminal state; there is nothing left to cancel (spec 3.1.5)."""


class MessageIdReused(ClientError):
    """This messageId already carries other content in this context (D17)."""


class ContextBusy(ClientError):
    """As many turns wait in this context as may wait."""


class ContentTypeNotSupported(ClientError):
    """A media type that this agent, or this endpoint, does not take."""


class NotSupported(ClientError):
    """This agent does not offer the operation."""


class NoExtendedCard(ClientError):
    """This agent offers an extended card, and nothing says what it holds (spec 3.1.11)."""


class PushNotSupported(ClientError):
    """This agent sends no push notifications (R95)."""


class TooManyPushConfigs(ClientError):
    """The task has as many push configs as it may have."""


class TooManyRequests(ClientError):
    """The caller has asked for as much as the deployment allows; `seconds`: how long to wait before the next try."""

    def __init__(self, sentence: str, *, seconds: int) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class StoreError(AionError):
    """The store did not do its part."""


class StoreUnavailable(StoreError):
    """Throttled, unreachable or timed out; the same call may succeed later."""


class StoreCorrupt(StoreError):
    """The log has a gap, or a record cannot be read; no shorter task is ever passed off as the task."""


class UnreadableWakeUp(StoreError, ValueError):
    """A message of the queue is no bell, or one that this version cannot read; the dead letter queue keeps it."""


class WebhookBlocked(AionError):
    """The webhook's URL or address may not be called; the text is what is said of it after "url:", or "blocked:"."""


class ClaimLost(AionError):
    """Another delivers for this push config, or it was deleted or replaced: nothing more is posted for it here."""


class LeaseLost(AionError):
    """Another holder has taken the context: what is said from here on would be refused."""


class PendingInput(AionError):
    """A message waits for the task: it does not end with this turn, which ends `working` instead."""


class InvalidTransition(AionError):
    """A task was to enter a state that may not follow the one it is in; nothing is recorded."""


class AgentFailed(AionError):
    """The agent could not finish its turn."""


class ConfigurationError(AionError):
    """A setting or a line of aion.yaml cannot be used; the sentence names it."""


class AgentLoadError(ConfigurationError):
    """An agent's code cannot be loaded.

    `what` says what is wrong, `where` names the author's file and line, `source` is the text of that line, and `do` is
    the remedy, a whole sentence. `agent_id` and `path` are those of aion.yaml, once they are known.
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
        """Return the same error, with the agent that it is about."""
        return type(self)(
            self.what, where=self.where, source=self.source, do=self.do, agent_id=agent_id, path=path
        ).with_traceback(self.__traceback__)

    def screen(self) -> str:
        """Return the error as a person reads it in a terminal: plain text of a few lines, without an end of line."""
        head = f"Agent {self.agent_id!r} ({self.path}) cannot be loaded." if self.agent_id else "It cannot be loaded."
        rows = [("what", self.what), ("where", self.where), ("", self.source), ("do", self.do)]
        return "\n".join([head, "", *(f"  {name:5}  {text}" for name, text in rows if text)])
