"""Calls of remote agents by an executor's turn."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from aion_core.delegation.author_calls import run_of
from aion_core.delegation.outcome import Outcome
from aion_core.engine.agent import InputRequired, TurnRequest
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.engine.task import states
from aion_core.protocol.interrupts import INTERRUPT_ID, interrupt_id_of
from aion_core.protocol.reserved_keys import without_reserved_metadata
from aion_core.protocol.types import Artifact, Event, Message, TaskArtifactUpdateEvent, TaskState


class RemoteQuestion(BaseException):
    """Question of a remote agent, which ends `execute()`. No handler of the author's for Exception catches it."""

    def __init__(self, message: Message, state: TaskState) -> None:
        super().__init__("A remote agent asks a question, which ends this turn.")
        self.message, self.state = message, state

    def ending(self) -> InputRequired:
        """Return the ending of the turn: the question, in the remote agent's words."""
        asked = without_reserved_metadata(Message(parts=self.message.parts, metadata=self.message.metadata))
        return InputRequired(asked, self.state)


def question_in(error: BaseException | None) -> RemoteQuestion | None:
    """Return the question that has ended `execute()`, also from within an `asyncio.TaskGroup`; None if there is none."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(question_in, error.exceptions)), None)
    return error if isinstance(error, RemoteQuestion) else None


async def first_message(request: TurnRequest) -> Message:
    """Return the message for which `execute()` runs: the turn's, or an earlier one if the turn's answers a remote agent."""
    before = request.before()
    if before is None or before.status.state not in states.INTERRUPTED or request.calls is None:
        return request.message
    run = run_of(await request.calls.all(), request.turn.id)
    return next((message for message in request.task.history if message.message_id == run), request.message)


def as_first(request: TurnRequest, first: Message) -> TurnRequest:
    """Return the turn's request with the message for which `execute()` runs."""
    is_new = bool(request.task.history) and request.task.history[0].message_id == first.message_id
    return replace(request, message=first, before=(lambda: None) if is_new else request.before)


class ExecutorCalls:
    """`CallingTurn` of an executor: the turn of an answer runs `execute()` again for the message of the first turn."""

    question = RemoteQuestion

    def __init__(self, request: TurnRequest, first: Message, send: Callable[[Event], Awaitable[None]]) -> None:
        """`first` is the message for which `execute()` runs. `send` sends an event of the SDK to the client."""
        self._request, self._run, self._send = request, first.message_id, send
        self._is_used = False
        """True after this turn's message has answered a question."""

    def site(self) -> tuple[str, str]:
        """Return the id of the message for which `execute()` runs. See `CallingTurn.site`."""
        return self._run, ""

    def ask(self, outcome: Outcome, answer: RemoteCall | None) -> Message:
        """Return the message of the turn as the answer, or end the turn with the question. See `CallingTurn.ask`."""
        if answer is not None:
            self._is_used = self._is_used or answer.key.endswith(f"@{self._request.turn.id}")
            return answer.message
        if self._is_used or self._run == self._request.message.message_id:
            raise RemoteQuestion(outcome.question, outcome.state)
        self._is_used = True
        given = self._request.message
        # Pass on the name of the question, and nothing else that the client has told this agent.
        name = interrupt_id_of(given)
        return Message(parts=given.parts, metadata={INTERRUPT_ID: name} if name else None)

    @property
    def may_suspend(self) -> bool:
        """Return False: `execute()` can't be left at a point and run again. See `CallingTurn.may_suspend`."""
        return False

    def suspend(self, call: AwaitedCall) -> BaseException:
        """Raise, because an executor is never suspended. See `CallingTurn.suspend`."""
        raise NotImplementedError

    async def send(self, artifact: Artifact) -> None:
        """Send the artifact. See `CallingTurn.send`."""
        task, context = self._request.task.id, self._request.context.context_id
        await self._send(TaskArtifactUpdateEvent(task_id=task, context_id=context, artifact=artifact, last_chunk=True))
