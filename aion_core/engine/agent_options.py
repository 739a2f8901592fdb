"""Options of an agent in aion.yaml that the engine follows."""

from enum import StrEnum


class ReplyAs(StrEnum):
    """Form of the response to a client's message: `reply` in aion.yaml."""

    AGENT = "agent"
    """The client receives a Message if an `AgentExecutor` answers with a Message and no task; else the task."""
    TASK = "task"
    """The client receives the task."""
    MESSAGE = "message"
    """The client receives the answer as a Message. If the turn fails or is interrupted, it receives the task."""
    AUTO = "auto"
    """The client receives a quick answer without other content as a Message; otherwise the task."""


class AnswerAs(StrEnum):
    """Place of a turn's answer in its task: `answer` in aion.yaml."""

    MESSAGE = "message"
    """The answer is the task's status message."""
    ARTIFACT = "artifact"
    """The answer is an artifact of the task."""
    BOTH = "both"


class AfterCrash(StrEnum):
    """Policy for a turn whose process died before it stored a step: `resume` in aion.yaml."""

    FAIL = "fail"
    """The task fails as not resumable, so that no step runs twice."""
    RESTART = "restart"
    """The turn restarts from its message."""


class WhenBusy(StrEnum):
    """Policy for a message to a busy context: `double_texting` in aion.yaml."""

    ENQUEUE = "enqueue"
    """The message waits in the context's queue."""
    REJECT = "reject"
    """The message is refused with an error."""
    INTERRUPT = "interrupt"
    """The running task is canceled first."""


class PushEvents(StrEnum):
    """Kinds of task events for push notifications: `push.events` in aion.yaml."""

    STATUS = "status"
    """Status updates only."""
    STATUS_AND_ARTIFACT = "status+artifact"
    """Status and artifact updates."""
    ALL = "all"
    """Every durable event, also the new task and messages."""
