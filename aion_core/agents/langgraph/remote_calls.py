"""Calls of remote agents, and sleeps, by the nodes and tools of a graph's turn."""

from datetime import datetime

from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt

from aion_core.agents.langgraph.remote_questions import ask_client, skip_answered
from aion_core.agents.langgraph.waits import call_interrupt, time_interrupt
from aion_core.authoring.emit import ArtifactEmitted, running_node, write_emission
from aion_core.delegation.outcome import Outcome
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.protocol.types import Artifact, Message


class GraphCalls:
    """`CallingTurn` and `SleepingTurn` of a graph: a node that runs again has the same name, also in the turn of an answer."""

    question = GraphInterrupt

    def __init__(self, turn_id: str, *, may_suspend: bool) -> None:
        """With `may_suspend`, a checkpointer stores the graph's state, so that another process can go on with it."""
        self._turn_id, self.may_suspend = turn_id, may_suspend

    def site(self) -> tuple[str, str]:
        """Return the name of the running node, and its attempt. See `CallingTurn.site`."""
        run, _, attempt = running_node().rpartition("#")
        return run or self._turn_id, attempt

    def ask(self, outcome: Outcome, answer: RemoteCall | None) -> Message:
        """Interrupt the graph, or return the answer with which it resumes. See `CallingTurn.ask`."""
        if answer is not None:
            skip_answered(answer.message)
            return answer.message
        return Message(parts=ask_client(outcome.question, outcome.state))

    def suspend(self, call: AwaitedCall) -> BaseException:
        """Return the interrupt that suspends the graph until the call has an answer. See `CallingTurn.suspend`."""
        return call_interrupt(call)

    def suspend_until(self, until: datetime) -> BaseException:
        """Return the interrupt that suspends the graph until this time. See `SleepingTurn.suspend_until`."""
        return time_interrupt(until)

    async def send(self, artifact: Artifact) -> None:
        """Write the artifact to the graph's stream. See `CallingTurn.send`."""
        # Give it a key of its own, because the node's other emissions are counted.
        key = f"remote/{artifact.artifact_id}#1"
        write_emission(get_stream_writer(), ArtifactEmitted(artifact, append=False, last_chunk=True, node=key))
