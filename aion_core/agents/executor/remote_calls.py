"""Calls of remote agents by an executor's turn."""

from collections.abc import Awaitable, Callable, Collection

from aion_core.delegation.author_calls import run_of
from aion_core.delegation.outcome import Outcome
from aion_core.engine.agent import InputRequired, TurnRequest
from aion_core.engine.remote_calls.records import RemoteCall
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


class ExecutorCalls:
    """`CallingTurn` of an executor: the turn of an answer runs `execute()` again, with the calls of the turn before."""

    question = RemoteQuestion

    def __init__(self, request: TurnRequest, send: Callable[[Event], Awaitable[None]]) -> None:
        """`send` sends an event of the SDK to the client."""
        self._request, self._send = request, send
        self._run = ""
        self._is_used = False
        """True after this turn's message has answered a question."""

    def site(self, known: Collection[RemoteCall]) -> tuple[str, str]:
        """Return the id of the turn with the first of the calls. See `CallingTurn.site`."""
        self._run = self._run or run_of(known, self._request.turn.id) or self._request.turn.id
        return self._run, ""

    def ask(self, outcome: Outcome, answer: RemoteCall | None) -> Message:
        """Return the message of the turn as the answer, or end the turn with the question. See `CallingTurn.ask`."""
        turn_id = self._request.turn.id
        if answer is not None:
            self._is_used = self._is_used or answer.key.endswith(f"@{turn_id}")
            return answer.message
        if self._is_used or self._run == turn_id:
            raise RemoteQuestion(outcome.question, outcome.state)
        self._is_used = True
        return without_reserved_metadata(self._request.message)

    async def send(self, artifact: Artifact) -> None:
        """Send the artifact. See `CallingTurn.send`."""
        task, context = self._request.task.id, self._request.context.context_id
        await self._send(TaskArtifactUpdateEvent(task_id=task, context_id=context, artifact=artifact, last_chunk=True))
