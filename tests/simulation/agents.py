"""Scripted agents that store a checkpoint after each step, under the lease's fence, like a LangGraph graph."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from aion_core.delegation.callbacks import CallbackRequest
from aion_core.delegation.durable_call import DurableCall
from aion_core.engine.agent import (
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    Batch,
    Chunk,
    Durable,
    Emission,
    InputRequired,
    Paused,
    Reply,
    StepCompleted,
    Suspended,
    TurnRequest,
)
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.engine.fenced_writes import Fence, FencedWrites
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import RemoteCall
from aion_core.engine.task.transition import MOST_TOGETHER
from aion_core.errors import LeaseLost, RemoteAgentUnreachable
from aion_core.protocol.types import Artifact, Message, Part, StreamResponse, TaskState
from aion_core.table import keys
from aion_core.table.item import Key
from aion_core.table.keys import ContextKey
from aion_core.table.times import milliseconds, moment
from aion_core.table.writes import Put
from tests.simulation.remotes import REMOTE, SimRemoteClient
from tests.simulation.table import operation, unblocked

if TYPE_CHECKING:
    from tests.simulation.processes import Process

Op = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """Script of an agent for one message: steps, each followed by a checkpoint, and the way in which the turn ends."""

    steps: tuple[tuple[Op, ...], ...]
    ending: str = "reply"
    """"reply", "nothing" (no ending), "after" (an event after the ending) or "twice" (two endings)."""
    drains: bool = True
    """True if the agent suspends its turn at the next step boundary after a drain request."""
    fails: bool = False
    """True if the task is expected to fail."""

    def seconds(self) -> float:
        """Return how many seconds the program takes if no fault happens."""
        return sum(
            float(op[1])
            for step in self.steps
            for op in step
            if op[0] in ("sleep", "block", "stubborn", "call", "wait", "await")
        )


PROGRAMS: dict[str, Program] = {
    "quick": Program(
        (()),
    ),
    "steps": Program(
        (
            (("chunks", 3), ("effect",), ("say",)),
            (("sleep", 2.0), ("effect",), ("emit",)),
            (("note",), ("effect",)),
            (("batch", 4), ("effect",), ("batch", MOST_TOGETHER - 1)),
        )
    ),
    "slow": Program(tuple((("chunks", 1), ("sleep", 9.0), ("effect",), ("say",)) for _ in range(5))),
    # Run for forty minutes, longer than a Lambda invocation: `long` has a step boundary each minute, at which its turn
    # can be handed off before the timeout; a step of `lumps` takes four minutes.
    "long": Program(tuple((("sleep", 59.0), ("effect",), ("say",)) for _ in range(40))),
    "lumps": Program(tuple((("sleep", 240.0), ("effect",), ("say",)) for _ in range(10))),
    # Record enough events for a snapshot at the end of a turn.
    "wordy": Program(((("say",),) * 101, (("ask",),), (("say",), ("effect",)))),
    # Record events and batches of chunks that are too large for one item.
    "heavy": Program(((("chunks", 3, 9_000), ("effect",), ("say", 40_000)), (("chunks", 2, 9_000), ("emit",)))),
    "recalls": Program(((("recall",), ("say",)), (("effect",),))),
    "asks": Program(
        ((("say",), ("effect",)), (("ask",),), (("effect",), ("emit",))),
    ),
    "asks twice": Program(((("ask",),), (("effect",), ("say",)), (("ask", "auth"),), (("say",),))),
    "asks often": Program(tuple((("ask",),) for _ in range(5))),
    "raises": Program(((("say",), ("effect",)), (("raise",),)), fails=True),
    "hangs": Program(((("say",),), (("hang",),)), fails=True),
    "says nothing": Program(((("effect",),),), ending="nothing"),
    "goes on": Program(((("say",),),), ending="after"),
    "ends twice": Program(((("effect",),),), ending="twice"),
    # Emit events in the middle of a streamed text, and after its end.
    "chatters": Program(
        (
            (("chunks", 400), ("say",), ("more chunks", 9)),
            (("chunks", 5), ("sleep", 1.0), ("note",), ("note",), ("more chunks", 40), ("chunks", 3)),
        )
    ),
    "blocks": Program(((("say",), ("block", 25.0), ("effect",)), (("block", 45.0), ("say",)))),
    "stubborn": Program(((("say",), ("stubborn", 20.0), ("effect",), ("say",)),), drains=False),
    "deaf": Program(tuple((("sleep", 100.0), ("effect",), ("say",)) for _ in range(12)), drains=False),
    "sour": Program(((("say",), ("sour", 20.0)), (("say",),))),
    # Call a remote agent, for less than a lease's term, and for longer than an invocation.
    "calls": Program(((("call", 20.0), ("effect",)), (("call", 3.0), ("say",)))),
    "calls for long": Program(((("call", 1500.0),), (("effect",), ("say",)))),
    # Await a remote agent's answer without a process, after a second; the second call's end is noticed minutes later.
    # The remote agent reports the ends of its tasks; of the first one just when the turn is suspended.
    "is called back": Program(
        ((("await", 1.0), ("effect",)), (("await", 20.0), ("effect",)), (("await", 900.0), ("say",)))
    ),
    "awaits": Program(((("await", 0.5), ("effect",)), (("await", 20.0), ("effect",)), (("await", 900.0), ("say",)))),
    # Wait without a process: twice for a moment, and for longer than a message can be delayed.
    "waits": Program(((("wait", 8.0), ("say",), ("effect",)), (("wait", 40.0), ("effect",), ("say",)))),
    "waits for long": Program(((("say",),), (("wait", 2000.0), ("effect",), ("say",)))),
}


NEXT_RELEASE: dict[str, Program] = {
    "slow": Program(tuple((("chunks", 1), ("sleep", 4.0), ("effect",), ("say",)) for _ in range(3))),
    "steps": Program((*PROGRAMS["steps"].steps, (("effect",), ("say",)))),
    "asks": Program((*PROGRAMS["asks"].steps[:2], (("say",), ("effect",)), (("emit",),))),
}
"""Programs that the next release of the agent's code changes, in their new form."""


@dataclass(frozen=True)
class ProgramState:
    """Newest checkpoint of a thread: the program and the position from which a turn resumes."""

    turn: str = ""
    task_id: str = ""
    program: str = ""
    position: int = 0
    asking: str = ""
    """State of the task while its question is open: input-required or auth-required; "" without a question."""
    answered: int = 0
    until: int = 0
    """Time until which the next step waits, in milliseconds since 1970; 0 if it does not wait, or has not begun to."""


def text_of(message: Message) -> str:
    """Return the text of the message."""
    return "".join(part.text for part in message.parts)


class ScriptedAgent:
    """`Agent` of a simulated process: a message whose text is the name of a program runs this program."""

    def __init__(self, process: "Process") -> None:
        self._process, self._world = process, process.world

    def load(self) -> None:
        """Do nothing: the agent has no code to import."""

    def profile(self) -> AgentProfile:
        """See `Agent.profile`."""
        return UNKNOWN

    async def run(self, asked: TurnRequest) -> AsyncGenerator[Emission, None]:
        """See `Agent.run`."""
        self._did(asked, "given", 0)
        state = await self._state(asked)
        if state.turn != asked.turn.id:
            if state.asking and state.task_id == asked.task.id and asked.turn.message_generation > 1:
                state = replace(state, turn=asked.turn.id, asking="", answered=state.answered + 1)
            else:
                name = text_of(asked.message)
                state = ProgramState(asked.turn.id, asked.task.id, name if name in PROGRAMS else "quick")
        program = PROGRAMS[state.program]
        if self._process.release:
            program = NEXT_RELEASE.get(state.program, program)
        while not state.asking and state.position < len(program.steps):
            if program.drains and asked.drain.is_set():
                self._did(asked, "paused", state.position)
                yield Paused()
                return
            waits = [float(op[1]) for op in program.steps[state.position] if op[0] == "wait"]
            if waits and not state.until:
                state = replace(state, until=self._now() + int(waits[0] * 1000))
                await self._checkpoint(asked, state)
            if state.until > self._now():
                self._did(asked, f"waits {state.until}", state.position)
                until = moment(state.until)
                yield Suspended(f"{state.position}", f"word aion:wait/{asked.turn.id}/{state.position}", until)
                return
            await self._process.effect("agent.step", lambda: None)
            await self._check_lease(asked, state.position)
            await self._process.moment("agent.checked")
            self._did(asked, "began", state.position)
            asks = ""
            for ordinal, op in enumerate(program.steps[state.position]):
                if op[0] == "ask":
                    asks = "auth" if op[1:] == ("auth",) else "input"
                if ordinal:
                    await self._process.moment("agent.within")
                async for emission in self._perform(asked, op, f"{asked.turn.id}.{state.position}.{ordinal}", state):
                    yield emission
                    if isinstance(emission, Suspended):
                        return
            finished = replace(state, position=state.position + 1, asking=asks, until=0)
            await self._checkpoint(asked, finished)
            state = finished
            yield StepCompleted()
        if state.asking:
            question = Message(message_id=f"{state.turn}.{state.position}.ask", parts=[Part(text="Which one?")])
            auth = state.asking == "auth"
            yield InputRequired(
                question, TaskState.TASK_STATE_AUTH_REQUIRED if auth else TaskState.TASK_STATE_INPUT_REQUIRED
            )
            return
        self._did(asked, "ended", state.position)
        if program.ending != "nothing":
            yield Reply(Message(message_id=f"{asked.turn.id}.reply", parts=[Part(text=answer_to(state.program))]))
        if program.ending == "after":
            yield AgentMessage(Message(message_id=f"{asked.turn.id}.after", parts=[Part(text="and another thing")]))
        if program.ending == "twice":
            yield Reply(Message(message_id=f"{asked.turn.id}.again", parts=[Part(text="or rather")]))

    def _now(self) -> int:
        return milliseconds(self._process.clock.now())

    async def _check_lease(self, asked: TurnRequest, step: int) -> None:
        """Check the lease right before a step, as the adapters of the frameworks do."""
        check = asked.check_lease
        try:
            await unblocked(getattr(check, "__self__", self), check)
        except LeaseLost:
            self._did(asked, "refused", step)
            raise
        self._did(asked, "checked", step)

    async def _perform(
        self, asked: TurnRequest, op: Op, key: str, state: ProgramState
    ) -> AsyncGenerator[Emission, None]:
        match op:
            case ("chunks" | "more chunks", count, *characters):
                spoken = self._world.history.spoken.setdefault((asked.task.id, asked.fence), {})
                if op[0] == "more chunks":
                    # Continue the newest streamed message, if this run has begun a message.
                    key = next(reversed(spoken), key)
                message = key.partition(".")[2]
                for number in range(count):
                    text = f"{message}:{number} ".ljust(sum(characters), ".")
                    spoken[key] = spoken.get(key, "") + text
                    # End the text, because a text longer than OPEN_CHARACTERS must end before the next event.
                    yield Chunk(text, key, ends=bool(characters) and number == count - 1)
                    if number % 8 == 0:
                        await asyncio.sleep(0.02)
            case ("say", *characters):
                text = f"word {key}".ljust(sum(characters), ".")
                yield AgentMessage(Message(message_id=key, parts=[Part(text=text)]), key=key)
                self._did(asked, f"recorded {key}", state.position)
            case ("batch", count):
                # Say the words, which wait together, and add a file: at most MOST_TOGETHER emissions.
                said: list[Durable] = [
                    AgentMessage(
                        Message(message_id=f"{key}.{each}", parts=[Part(text=f"word {key}.{each}")]),
                        key=f"{key}.{each}",
                    )
                    for each in range(count)
                ]
                artifact = Artifact(artifact_id=f"{key}.file", name="thing", parts=[Part(text="thing")])
                yield Batch([*said, AgentArtifact(artifact, key=f"{key}.file")])
                for each in (*range(count), "file"):
                    self._did(asked, f"recorded {key}.{each}", state.position)
            case ("note",):
                yield AgentMetadata({"noted": key}, key=key)
                self._did(asked, f"recorded {key}", state.position)
            case ("emit",):
                yield AgentArtifact(Artifact(artifact_id=key, name="thing", parts=[Part(text="thing")]), key=key)
                self._did(asked, f"recorded {key}", state.position)
            case ("recall",):
                assert asked.history is not None
                messages = await asked.history(20, None)
                ids = tuple(message.message_id for message in messages)
                self._world.history.recalled.append((asked.context, asked.message.message_id, ids))
            case ("effect",):
                await self._process.effect("agent.effect", lambda: self._did(asked, "effect", state.position))
            case ("call", seconds):
                yield await self._call(asked, key, seconds)
                self._did(asked, f"recorded {key}", state.position)
            case ("await", seconds):
                ending = await self._await(asked, key, seconds)
                yield ending
                self._did(asked, f"recorded {key}" if isinstance(ending, AgentMessage) else "awaits", state.position)
            case ("sleep", seconds):
                await asyncio.sleep(seconds)
            case ("block", seconds):
                await self._process.block(seconds)
            case ("hang",):
                await asyncio.get_running_loop().create_future()
            case ("raise",):
                raise RuntimeError("the agent's own secret trouble")
            case ("stubborn", seconds):
                until = asyncio.get_running_loop().time() + seconds
                while (left := until - asyncio.get_running_loop().time()) > 0 and not self._world.over:
                    try:
                        await asyncio.sleep(left)
                    except asyncio.CancelledError:
                        continue
            case ("sour", seconds):
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    raise RuntimeError("the model's client does not like to be cancelled") from None

    async def _call(self, asked: TurnRequest, key: str, seconds: float) -> AgentMessage:
        """Call the remote agent, and return its answer as a message. Each attempt proposes a message of its own."""
        durable, said = self._durable(asked, key, seconds), ""
        async for response in durable.responses():
            for status in (response.task.status, response.status_update.status):
                said = text_of(status.message) or said
        return AgentMessage(Message(message_id=key, parts=[Part(text=said)]), key=key)

    def _durable(self, asked: TurnRequest, key: str, seconds: float) -> DurableCall:
        assert asked.calls is not None
        client: Any = SimRemoteClient(self._process)
        parts = [Part(text=str(seconds)), Part(text=asked.task.id), Part(text=key)]
        message = Message(message_id=self._world.new_id(), context_id=f"remote-{asked.task.id}", parts=parts)
        call = RemoteCall(key, REMOTE, message)
        callback = CallbackRequest(client, REMOTE, "https://caller.example/callbacks") if self._calls_back else None
        return DurableCall(
            client, asked.calls, call, name="remote", clock=self._process.clock, keeps_answer=True, callback=callback
        )

    @property
    def _calls_back(self) -> bool:
        return self._world.deployment.calls_back

    async def _await(self, asked: TurnRequest, key: str, seconds: float) -> AgentMessage | Suspended:
        """Call the remote agent as `AuthorCalls` does: suspend the turn if it has not answered within a second."""
        assert asked.calls is not None
        known = next((call for call in await asked.calls.all() if call.key == key), None)
        if known is not None and known.answer is not None:
            return _answered(key, known.answer)
        durable = self._durable(asked, key, seconds)
        running = asyncio.ensure_future(_last_of(durable))
        try:
            while not (await asyncio.wait({running}, timeout=1.0))[0]:
                if durable.remote_task:
                    self._check_limit(asked, key)
                    running.cancel()
                    await asyncio.wait({running})
                    if running.cancelled():
                        call = AwaitedCall(key, REMOTE, durable.remote_task, calls_back=bool(durable.call.callback))
                        word = f"word aion:wait/{asked.turn.id}/{key}"
                        return Suspended(key, word, until=self._limit(asked, key), calls=[call])
            return _answered(key, running.result())
        finally:
            running.cancel()

    def _limit(self, asked: TurnRequest, key: str) -> datetime | None:
        """Return the end of the wait for a call: the same for each suspension of the turn."""
        patience, wait = self._world.deployment.patience, asked.turn.wait
        if patience is None:
            return None
        is_same = wait is not None and wait.key == key
        return moment(wait.until) if wait and is_same else self._process.clock.now() + timedelta(seconds=patience)

    def _check_limit(self, asked: TurnRequest, key: str) -> None:
        """Raise RemoteAgentUnreachable if the turn has waited for the call as long as it may, as `AuthorCalls` does."""
        wait = asked.turn.wait
        if wait is not None and wait.key == key and milliseconds(self._process.clock.now()) >= wait.until:
            raise RemoteAgentUnreachable("The agent has not answered in time.", agent=REMOTE, reason="it is gone.")

    async def _state(self, asked: TurnRequest) -> ProgramState:
        """Return the newest checkpoint of the context."""
        with operation("thread", "read"):
            item = await self._process.table.get(_thread_key(asked.context))
        return ProgramState(**item["state"]) if item is not None else ProgramState()

    async def _checkpoint(self, asked: TurnRequest, state: ProgramState) -> None:
        """Store the checkpoint, under the fence."""
        with operation("thread", "checkpoint", asked, state):
            fenced = FencedWrites(self._process.table, Fence(asked.context, asked.fence))
            await fenced.commit_step(Put(_thread_key(asked.context), {"state": asdict(state)}))

    def _did(self, asked: TurnRequest, what: str, step: int) -> None:
        self._world.agent_did(self._process, asked, what, step)


async def _last_of(durable: DurableCall) -> StreamResponse:
    async for _ in durable.responses():
        pass
    return durable.outcome.response()


def _answered(key: str, answer: StreamResponse) -> AgentMessage:
    return AgentMessage(Message(message_id=key, parts=[Part(text=text_of(answer.task.status.message))]), key=key)


def _thread_key(context: ContextKey) -> Key:
    return Key(keys.thread_partition(f"{context.owner} {context.context_id}"), "STATE")


def answer_to(program: str) -> str:
    """Return the agent's last answer."""
    return f"done: {program}"
