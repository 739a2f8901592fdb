"""Calls of remote agents by an author's code in one turn.

A call has a key: the run of the code that makes it, the remote agent, and a number. Code that runs again, after a crash
or after an answer of the client, makes its calls with the same keys, and so reaches the same remote tasks. Each answer to
a question of a remote agent is a call of its own, with the number of the question in its key.
"""

import asyncio
import re
from collections.abc import Collection, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, unquote

from msgspec import Struct, field

from aion_core.authoring.remote import RemoteAnswer, is_file, messages_of_agent
from aion_core.delegation import ids
from aion_core.delegation.depth import next_depth
from aion_core.delegation.outcome import Outcome, outcome_of
from aion_core.delegation.patience import SUSPEND_SECONDS, check_limit
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import TurnRequest
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import CallState, RemoteCall
from aion_core.engine.remote_calls.turn_calls import TurnCalls
from aion_core.errors import RemoteAgentFailed
from aion_core.protocol.types import Artifact, Message, Role, Task

if TYPE_CHECKING:
    from aion_core.delegation.durable_call import DurableCall

_FOLLOW_UP = re.compile(r"(.*)\?(\d+)@([^@/?]+)", re.S)
"""Pattern of the key of an answer to a remote agent: the first call's key, the question's number, the answering turn."""


class CallingTurn(Protocol):
    """Give what differs between frameworks: the run of the author's code, its client's answers, and its artifacts."""

    @property
    def question(self) -> type[BaseException]:
        """Exception by which `ask` ends the turn with a question."""
        ...

    def site(self) -> tuple[str, str]:
        """Return the name of the run of the code that makes a call, the same if it runs again; and its attempt."""
        ...

    def ask(self, outcome: Outcome, answer: RemoteCall | None) -> Message:
        """Return the client's answer to a question of a remote agent, or raise `question`.

        `answer` is the call with the answer, if the client has given it before; else `outcome` has the question.
        """
        ...

    async def send(self, artifact: Artifact) -> None:
        """Send an artifact to the client."""
        ...

    @property
    def may_suspend(self) -> bool:
        """True if the turn can wait for a remote agent without a process, and `suspend` can be called."""
        ...

    def suspend(self, call: AwaitedCall) -> BaseException:
        """Return the exception, of the class `question`, that suspends the turn until the call has an answer."""
        ...


class _Claim(Struct, eq=False):
    """A call that the running code makes."""

    key: str
    done: asyncio.Event = field(default_factory=asyncio.Event)
    question: BaseException | None = None
    """Exception by which the call has ended its turn with a question."""


class _Site(Struct, eq=False):
    """One run of the code that makes calls."""

    attempt: str
    claims: list[_Claim] = field(default_factory=list)
    """Calls of the attempt, in their order."""
    failed: set[str] = field(default_factory=set)
    """Keys of calls that have failed in earlier attempts: another attempt calls anew."""

    @property
    def taken(self) -> set[str]:
        """Keys that a further call of the attempt cannot have."""
        return {*self.failed, *(claim.key for claim in self.claims)}


class _Progress(Struct, eq=False):
    """Call that is under way."""

    durable: "DurableCall | None" = None
    """None until its client is ready."""


class AuthorCalls:
    """Calls of one turn. They may come from any thread and event loop."""

    def __init__(self, request: TurnRequest, remotes: Remotes, turn: CallingTurn) -> None:
        self._request, self._remotes, self._turn = request, remotes, turn
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Lock | None = None
        self._known: dict[str, RemoteCall] | None = None
        self._sites: dict[str, _Site] = {}
        self._in_flight: dict[str, int] = {}
        """Number of calls of each remote agent that are under way."""
        self._running: dict[asyncio.Task[Outcome], _Progress] = {}
        self._sent: set[str] = set()
        """Ids of the artifacts that this turn has sent."""

    async def call(self, agent: str, message: Message, metadata: Mapping[str, Any], key: str) -> RemoteAnswer:
        """Send a message to another agent and return its answer. It is the turn's `RemoteCaller`; see `call_agent`."""
        if asyncio.get_running_loop() is not self._loop:
            elsewhere = self.call(agent, message, metadata, key)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(elsewhere, self._loop))
        calls = self._request.calls
        if calls is None:
            raise RuntimeError("call_agent() needs the store of a server: this turn has none.")
        remote = self._remotes.resolve(agent).name
        known = await self._read(calls)
        name, attempt = self._turn.site()
        site = self._sites.get(name)
        if site is None or site.attempt != attempt:
            site = self._sites[name] = _Site(attempt, failed=site.failed if site is not None else set())
        claim = _Claim(_key_of(f"{quote(name, safe='')}/{remote}/{key}", message, known, site.taken))
        site.claims.append(claim)
        self._in_flight[remote] = self._in_flight.get(remote, 0) + 1
        try:
            return await self._answer(calls, site, claim, remote, message, metadata)
        except RemoteAgentFailed:
            site.failed.add(claim.key)
            raise
        except self._turn.question as question:
            claim.question = question
            raise
        finally:
            self._in_flight[remote] -= 1
            claim.done.set()

    def close(self) -> None:
        """Stop the calls for which nobody waits any more, after the end of the turn."""
        for running in self._running:
            # A second cancellation would interrupt the end of the first.
            if not running.cancelling():
                running.cancel()

    async def _read(self, calls: TurnCalls) -> dict[str, RemoteCall]:
        self._reading = self._reading or asyncio.Lock()
        async with self._reading:
            if self._known is None:
                self._known = {call.key: call for call in await calls.all()}
            return self._known

    async def _answer(
        self,
        calls: TurnCalls,
        site: _Site,
        claim: _Claim,
        remote: str,
        message: Message,
        metadata: Mapping[str, Any],
    ) -> RemoteAnswer:
        known, number = await self._read(calls), 0
        call = known.get(claim.key) or self._first(claim.key, remote, message)
        while True:
            number += 1
            answer, outcome = follow_up(known, claim.key, number), Outcome()
            if answer is None:
                outcome = (
                    outcome_of([call.answer]) if call.answer is not None else await self._outcome(calls, call, metadata)
                )
                # A remote agent may go on by itself after its question, as after an authorization.
                if not outcome.asks and call.state is not CallState.ASKS:
                    break
            await _its_turn(site, claim)
            said = self._turn.ask(outcome, answer)
            call = answer or self._next(f"{claim.key}?{number}@{self._request.turn.id}", call, outcome, said)
        found = outcome.answer(remote)
        earlier = {each.artifact_id for each in self._request.task.artifacts}
        for artifact in _with_files(outcome, self._request.task.id, claim.key):
            if artifact.artifact_id not in self._sent | earlier:
                self._sent.add(artifact.artifact_id)
                await self._turn.send(artifact)
        return found

    async def _outcome(self, calls: TurnCalls, call: RemoteCall, metadata: Mapping[str, Any]) -> Outcome:
        """Send the call's message, or follow its task, until the remote agent has answered."""
        progress = _Progress()
        running = asyncio.create_task(self._durable(calls, call, metadata, progress))
        self._running[running] = progress
        try:
            while not (await asyncio.wait({running}, timeout=self._patience))[0]:
                if self._may_suspend() and progress.durable is not None:
                    await self._suspend(running, progress.durable)
            return await running
        except asyncio.CancelledError:
            # The author's code has a time limit of its own, or the turn stops.
            running.cancel()
            await asyncio.wait({running})
            raise
        finally:
            self._running.pop(running, None)

    @property
    def _patience(self) -> float | None:
        return SUSPEND_SECONDS if self._turn.may_suspend and self._request.sleeps is not None else None

    def _may_suspend(self) -> bool:
        """Return True if the turn should wait without a process: each call under way has reached its remote agent."""
        sleeps = self._request.sleeps
        if sleeps is None or not sleeps.may_suspend():
            return False
        return all(each.durable is not None and each.durable.remote_task for each in self._running.values())

    async def _suspend(self, running: "asyncio.Task[Outcome]", durable: "DurableCall") -> None:
        """Stop a call under way, and suspend the turn until it has an answer. Return if it has an answer already."""
        call = durable.call
        check_limit(self._request, call.key, call.remote)
        running.cancel()
        await asyncio.wait({running})
        if running.cancelled():
            raise self._turn.suspend(
                AwaitedCall(call.key, call.remote, durable.remote_task, calls_back=bool(call.callback))
            )

    async def _durable(
        self, calls: TurnCalls, call: RemoteCall, metadata: Mapping[str, Any], progress: _Progress
    ) -> Outcome:
        # Import late, because most turns call no agent.
        from aion_core.delegation.durable_call import DurableCall

        whole = {**metadata, **next_depth(self._request.request, call.remote)}
        async with self._remotes.client(call.remote) as client:
            # Code that runs again follows a call that has its remote task, and asks for no second callback.
            awaits = self._patience is not None and not call.remote_task
            callback = self._remotes.callback(call.remote, client) if awaits else None
            durable = DurableCall(client, calls, call, name=call.remote, keeps_answer=True, callback=callback)
            progress.durable = durable
            async with aclosing(durable.responses(metadata=whole)) as stream:
                async for _ in stream:
                    pass
        (await self._read(calls))[call.key] = durable.call
        return durable.outcome

    def _first(self, key: str, remote: str, given: Message) -> RemoteCall:
        """Return a new call. A message of the caller's own conversation gets another one with the remote agent."""
        context, task_id = self._request.context, self._request.task.id
        message = Message()
        message.CopyFrom(given)
        message.role, message.message_id = Role.ROLE_USER, ids.message_id(context, task_id, key)
        if message.task_id == task_id:
            message.task_id = ""
        if message.context_id in ("", context.context_id):
            # Give calls at the same time a conversation each: the turns of one run one after another.
            branch = key if self._in_flight[remote] > 1 else ""
            message.context_id = ids.context_id(context, remote, branch=branch)
        return RemoteCall(key, remote, message)

    def _next(self, key: str, asked: RemoteCall, outcome: Outcome, answer: Message) -> RemoteCall:
        """Return the call with the client's answer to a question. A remote task that has gone on is only followed."""
        task = outcome.task or Task()
        message = Message(
            role=Role.ROLE_USER,
            message_id=ids.message_id(self._request.context, self._request.task.id, key),
            task_id=task.id,
            context_id=task.context_id,
            parts=answer.parts,
            metadata=answer.metadata if answer.HasField("metadata") else None,
        )
        return RemoteCall(key, asked.remote, message, remote_task="" if outcome.asks else task.id)


def follow_up(known: Mapping[str, RemoteCall], key: str, number: int) -> RemoteCall | None:
    """Return the call with the answer to the question with this number; None if there is none yet."""
    return next((call for name, call in known.items() if name.startswith(f"{key}?{number}@")), None)


def run_of(known: Collection[RemoteCall], turn_id: str) -> str:
    """Return the run that a turn continues with the client's answer: the first part of its calls' keys; "" for none.

    A turn continues a run if it has answered one of the run's questions, or if one still waits for its answer.
    """
    by_key = {call.key: call for call in known}
    for call in known:
        parsed = _FOLLOW_UP.fullmatch(call.key)
        first, number = (parsed[1], int(parsed[2])) if parsed else (call.key, 0)
        is_open = call.state is CallState.ASKS and follow_up(by_key, first, number + 1) is None
        if is_open or (parsed is not None and parsed[3] == turn_id):
            return unquote(first.partition("/")[0])
    return ""


def _key_of(base: str, message: Message, known: Mapping[str, RemoteCall], taken: Collection[str]) -> str:
    """Return the key of the next call: of an earlier call with the same message, else of the next one, else a new key."""
    earlier, number = [], 0
    while (key := f"{base}/{number}") in known or key in taken:
        if key not in taken:
            earlier.append(key)
        number += 1
    said = _content(message)
    return next((each for each in earlier if _content(known[each].message) == said), earlier[0] if earlier else key)


def _content(message: Message) -> bytes:
    content = Message(parts=message.parts, metadata=message.metadata if message.HasField("metadata") else None)
    return content.SerializeToString(deterministic=True)


async def _its_turn(site: _Site, claim: _Claim) -> None:
    """Wait for the run's earlier calls, so that its questions have the same order if it runs again.

    If one of them has a question, that ends this call too.
    """
    for earlier in site.claims[: site.claims.index(claim)]:
        await earlier.done.wait()
        if earlier.question is not None:
            raise earlier.question


def _with_files(outcome: Outcome, task_id: str, key: str) -> list[Artifact]:
    """Return the files of an answer as artifacts of the caller's task, with ids of their own."""
    task = outcome.task or Task()
    found = [(artifact.artifact_id, artifact) for artifact in task.artifacts if any(map(is_file, artifact.parts))]
    for message in (*messages_of_agent(task), *([outcome.message] if outcome.message is not None else ())):
        for number, part in enumerate(filter(is_file, message.parts)):
            found.append((f"{message.message_id}/{number}", Artifact(name=part.filename or "file", parts=[part])))
    sent = []
    for name, artifact in found:
        own = Artifact()
        own.CopyFrom(artifact)
        own.artifact_id = ids.artifact_id(task_id, key, name)
        sent.append(own)
    return sent
