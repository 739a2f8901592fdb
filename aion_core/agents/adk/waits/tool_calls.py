"""Calls of remote agents, and sleeps, by the tools of an ADK turn."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from google.genai import types as genai

from aion_core.agents.adk.parts import part_of
from aion_core.agents.adk.waits.pauses import FRAMEWORK
from aion_core.agents.adk.waits.tool_runs import FileReceived, ToolQuestion, ToolRun, ToolStops, running_tool
from aion_core.agents.adk.waits.turn_waits import TurnWaits
from aion_core.agents.client_answers import answered_question, interrupt_ids
from aion_core.agents.emission_ids import deterministic_id
from aion_core.agents.questions import Question
from aion_core.delegation.outcome import Outcome
from aion_core.engine.agent import TurnRequest
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.engine.resume_input import parts_by_interrupt
from aion_core.errors import RemoteAgentError
from aion_core.protocol.interrupts import INTERRUPT_ID, OpenQuestion, interrupt_id_of, questions_of
from aion_core.protocol.types import Artifact, Message, Part, TaskState

_ONLY_TOOLS = (
    "In an ADK agent, call_agent() and sleep() are for the code of its tools: no tool is running here. A workflow or "
    "another agent calls agents by ADK's RemoteA2aAgent."
)


class AdkToolCalls:
    """`CallingTurn` and `SleepingTurn` of an ADK turn: a tool that runs again has the same call id."""

    question = ToolStops

    def __init__(self, request: TurnRequest, waits: TurnWaits, send: Callable[[object], Awaitable[None]]) -> None:
        """`send` sends an event to the turn's channel."""
        self._request, self._waits, self._send = request, waits, send

    def site(self) -> tuple[str, str]:
        """Return the name of the running tool call, and its attempt. See `CallingTurn.site`."""
        run = _running()
        return run.site, run.attempt

    @property
    def may_suspend(self) -> bool:
        """True if the running tool may stop, and another process can run it again. See `CallingTurn.may_suspend`."""
        return self._waits.may_suspend(_running())

    def suspend(self, call: AwaitedCall) -> BaseException:
        """Return the exception that stops the tool until the call has an answer. See `CallingTurn.suspend`."""
        return _stop(call)

    def suspend_until(self, until: datetime) -> BaseException:
        """Return the exception that stops the tool until this time. See `SleepingTurn.suspend_until`."""
        return _stop(until)

    def ask(self, outcome: Outcome, answer: RemoteCall | None) -> Message:
        """Return the client's answer, or stop the tool. See `CallingTurn.ask`.

        Raises RemoteAgentError in a tool that can't be stopped: one of an agent that is itself a tool.
        """
        if answer is not None:
            return answer.message
        run, remote = _running(), outcome.question
        asked = questions_of(remote)
        several = len(asked) > 1
        questions = [_question(self._request, outcome, each, several) for each in asked] or [
            _question(self._request, outcome, None, False)
        ]
        answers = [self._answer(each.id) for each in questions]
        if all(each is not None for each in answers):
            for question, given in zip(asked if several else (), answers, strict=several):
                for part in given or ():
                    part.metadata.update({INTERRUPT_ID: question.id})
            return Message(parts=[part for given in answers for part in given or ()])
        if not run.may_stop:
            text = "".join(part.text for part in remote.parts)
            raise RemoteAgentError(f"The remote agent asks a question that this tool can't pass on: {text}", agent="")
        auth = outcome.state == TaskState.TASK_STATE_AUTH_REQUIRED
        run.question = run.question or ToolQuestion(questions, needs_authorization=auth)
        raise ToolStops("A remote agent asks the client.")

    async def send(self, artifact: Artifact) -> None:
        """Send the artifact to the turn. See `CallingTurn.send`."""
        await self._send(FileReceived(artifact))

    def _answer(self, question: str) -> list[Part] | None:
        """Return the client's answer to a question of a tool; None without one."""
        responses = [
            response
            for event in self._waits.stored()
            if event.author == "user"
            for response in event.get_function_responses()
            if response.id == question
        ]
        if not responses:
            return None
        asked = answered_question(self._request)
        given = parts_by_interrupt(self._request.message, interrupt_ids(asked)).get(question)
        return [_without_name(part) for part in given] if given else [_part_of(responses[-1])]


def _running() -> ToolRun:
    """Return the running tool call. Raises RuntimeError outside of a tool."""
    run = running_tool.get()
    if run is None:
        raise RuntimeError(_ONLY_TOOLS)
    return run


def _stop(wait: AwaitedCall | datetime) -> ToolStops:
    run = _running()
    # Of several waits of one tool, the first one stops it. The tool finds the others when it runs again.
    run.wait = run.wait or wait
    return ToolStops("The tool waits, and runs again when the turn goes on.")


def _question(request: TurnRequest, outcome: Outcome, asked: OpenQuestion | None, several: bool) -> Question:
    """Return a question of a remote agent for the client, with an id of its own."""
    remote, task = outcome.question, outcome.task.id if outcome.task is not None else ""
    name = deterministic_id(request.task.id, task, remote.message_id, asked.id if asked is not None else "")
    own = [part for part in remote.parts if not several or (asked and interrupt_id_of(part) == asked.id)]
    text = "".join(part.text for part in own if part.WhichOneof("content") == "text")
    details = [_without_name(part) for part in own if part.WhichOneof("content") != "text"]
    if asked is None:
        return Question(name, text, details)
    return Question(name, text or asked.text, details, asked.schema or None, asked.choices)


def _without_name(part: Part) -> Part:
    own = Part.FromString(part.SerializeToString())
    own.ClearField("metadata")
    return own


def _part_of(response: genai.FunctionResponse) -> Part:
    given = response.response or {}
    return part_of(given["result"] if given.keys() == {"result"} else given)


def asks_authorization(call: genai.FunctionCall) -> bool:
    """Return True if the call asks for an authorization by a remote agent that a tool has called."""
    return call.name == FRAMEWORK and "auth_required" in (call.args or {})
