"""Scripted clients: requests, timeouts, and reconnections after a broken connection."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from aion_core.engine.push_config import PushConfig
from aion_core.engine.records import Delta
from aion_core.errors import ClientError, StoreCorrupt, StoreError
from aion_core.protocol.types import ListTasksRequest, Message, Part, Role, SendMessageRequest, Task, TaskState
from aion_core.table.keys import TaskKey
from tests.simulation import assembly
from tests.simulation.connections import Broken, Connection
from tests.simulation.history import Asking, Hearing

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld

TIMEOUT = 300.0
"""Longest wait of a client for a unary answer; HTTP entry points have shorter timeouts."""
TRIES = 12
TERMINAL_OR_INTERRUPTED = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
    TaskState.TASK_STATE_INPUT_REQUIRED,
    TaskState.TASK_STATE_AUTH_REQUIRED,
}
AGAIN = (Broken, StoreError)
"""Errors that leave the result of a request unknown: the client sends the request again."""


class Client:
    """Simulated user: retries and reconnects until the result arrives, unless the scenario makes the client leave."""

    def __init__(self, world: "SimWorld", owner: str = "ann", name: str = "") -> None:
        self.world, self.owner, self.name = world, owner, name or owner

    def message(self, text: str, id_: str, *, context: str = "c", task: str = "") -> Message:
        """Return a message to send; equal arguments give an equal message, for repeats."""
        return Message(
            message_id=id_, context_id="" if task else context, task_id=task, role=Role.ROLE_USER,
            parts=[Part(text=text)],
        )  # fmt: skip

    async def send(
        self,
        text: str,
        id_: str,
        *,
        wait: bool = True,
        context: str = "c",
        task: str = "",
        push: PushConfig | None = None,
        key: str = "",
    ) -> Any:
        """Send the message until a response arrives; return the task, the message, or the ClientError.

        With an idempotency key the message names no context.
        """
        context = "" if key else context
        request = SendMessageRequest(message=self.message(text, id_, context=context, task=task))
        request.configuration.return_immediately = not wait
        return await self._asked(
            "send",
            lambda service, call: service.send(replace(call, push=push, idempotency_key=key), request),
            message_id=id_,
            task_id=task,
            context="" if task else context,
            key=key,
        )

    async def list(self, *, context: str = "", what: str = "list") -> Any:
        """List the owner's tasks, page by page."""

        async def every_page(lister: Any, call: Any) -> list[Task]:
            found: list[Task] = []
            request = ListTasksRequest(context_id=context, page_size=2)
            while True:
                page = await lister.list_tasks(call, request)
                found += page.tasks
                if not page.next_page_token:
                    return found
                request.page_token = page.next_page_token

        return await self._asked(what, every_page, context=context, of="lister")

    async def get(self, task_id: str) -> Any:
        """Read the task."""
        return await self._asked("get", lambda service, call: service.get(call, task_id), task_id=task_id)

    async def register(self, task_id: str, config: PushConfig) -> Any:
        """Create the push config."""
        put = lambda registry, call: registry.put(call, task_id, config)  # noqa: E731
        return await self._asked("register", put, task_id=task_id, of="registry")

    async def unregister(self, task_id: str, config_id: str) -> Any:
        """Delete the push config."""
        delete = lambda registry, call: registry.delete(call, task_id, config_id)  # noqa: E731
        return await self._asked("unregister", delete, task_id=task_id, of="registry")

    async def cancel(self, task_id: str) -> Any:
        """Cancel the task."""
        return await self._asked("cancel", lambda service, call: service.cancel(call, task_id), task_id=task_id)

    async def rest(self, task_id: str, *, within: float = 4 * 3600.0) -> Any:
        """Poll the task until it reaches a terminal or interrupted state."""
        until, pause = self.world.loop.now + within, 2.0
        while True:
            task = await self.get(task_id)
            if (
                not isinstance(task, Task)
                or task.status.state in TERMINAL_OR_INTERRUPTED
                or self.world.loop.now > until
            ):
                return task
            await asyncio.sleep(pause)
            pause = min(60.0, pause * 2)

    async def stream(
        self, text: str, id_: str, *, context: str = "c", task: str = "", leave_after: int = 0, slow: float = 0.0
    ) -> str:
        """Send a message; read its stream until the task ends or is interrupted. Return the task id, "" if refused."""
        request = SendMessageRequest(message=self.message(text, id_, context=context, task=task))
        hearing: Hearing | None = None
        for tries in range(TRIES):
            hearing = await self._receive(
                f"stream {id_}",
                lambda service, call: service.stream(call, request),
                leave_after=leave_after,
                slow=slow,
                message_id=id_,
                asks=task,
            )
            if hearing.task_id or hearing.how == "refused" or _message_of(hearing):
                break
            # Repeat the loop to send the message again: its stream broke before the first event, so the client does not
            # know whether the server has stored it.
            await asyncio.sleep(min(30.0, 2.0**tries))
        assert hearing is not None
        if not hearing.task_id or leave_after or _message_of(hearing):
            return hearing.task_id
        await self.listen(hearing.task_id, after=hearing)
        return hearing.task_id

    async def listen(
        self, task_id: str, *, after: Hearing | None = None, cursor: str = "", leave_after: int = 0, slow: float = 0.0
    ) -> Hearing | None:
        """Subscribe to the task, and reconnect until it ends or is interrupted, or until the client leaves.

        `after` is an earlier connection whose stream is continued. Return the last connection.
        """
        for _ in range(4 * TRIES):
            if after is not None and (_at_rest(after) or after.how == "refused"):
                return after
            last = next((id_ for _, id_, _ in reversed(after.heard) if id_), after.cursor) if after else cursor
            after = await self._receive(
                f"subscribe {task_id}",
                lambda service, call, at=last: service.subscribe(assembly.back(call, at), task_id),
                cursor=last,
                after=after,
                leave_after=leave_after,
                slow=slow,
                task_id=task_id,
            )
            if leave_after:
                return after
            await asyncio.sleep(5.0 if after.how == "broken" else 1.0)
        self.world.history.surprises.append(f"I16: {self.name} came back {4 * TRIES} times and never heard the end.")
        return after

    async def _asked(
        self,
        what: str,
        operation: Any,
        *,
        message_id: str = "",
        task_id: str = "",
        context: str = "",
        key: str = "",
        of: str = "service",
    ) -> Any:
        world = self.world
        refused: Any = None
        for tries in range(TRIES):
            known = world.history.log.get(TaskKey(self.owner, task_id), ())
            asking = Asking(
                self.name, self.owner, what, world.loop.now, message_id, task_id, context, key, before=len(known)
            )
            world.history.askings.append(asking)
            connection = world.entrypoint_url.ask(self.owner, operation, of=of)
            asking.process = connection.process
            world.trace(self.name, f"{what} {message_id or task_id} (to {connection.process})")
            try:
                asking.answer = await connection.result(TIMEOUT)
                asking.answered = world.loop.now
                world.trace(self.name, f"{what} {message_id or task_id} answered {_short(asking.answer)}")
                return asking.answer
            except ClientError as error:
                asking.answer, asking.answered = error, world.loop.now
                world.trace(self.name, f"{what} {message_id or task_id} refused: {error!r}")
                return error
            except StoreCorrupt as error:
                asking.answer, asking.answered = error, world.loop.now
                return error
            except AGAIN as error:
                asking.answer = refused = error
                world.trace(self.name, f"{what} {message_id or task_id} failed: {error!r}")
                await asyncio.sleep(min(30.0, 2.0**tries))
        world.history.surprises.append(f"I16: {self.name} was never answered: {what} {message_id or task_id}.")
        return refused

    async def _receive(
        self,
        what: str,
        operation: Any,
        *,
        cursor: str = "",
        after: Hearing | None = None,
        leave_after: int = 0,
        slow: float = 0.0,
        message_id: str = "",
        task_id: str = "",
        asks: str = "",
    ) -> Hearing:
        world = self.world
        hearing = Hearing(self.name, self.owner, world.loop.now, cursor, after, task_id=task_id)
        hearing.subscribes = what.startswith("subscribe")
        world.history.hearings.append(hearing)
        asking = Asking(self.name, self.owner, what.split()[0], world.loop.now, message_id, task_id or asks)
        world.history.askings.append(asking)
        connection = world.entrypoint_url.listen(self.owner, operation, slow=slow)
        hearing.process = asking.process = connection.process
        world.trace(self.name, f"{what} after {cursor!r} (to {connection.process})")
        while new := await connection.read():
            for at, spoken in new:
                hearing.heard.append((at, spoken.id, spoken.payload))
                if not isinstance(spoken.payload, Delta):
                    hearing.task_id = getattr(spoken.payload, "task_id", "") or getattr(spoken.payload, "id", "")
            if leave_after and len(hearing.heard) >= leave_after:
                connection.leave()
        hearing.how, hearing.ended, hearing.seconds_left = _how(connection), world.loop.now, connection.seconds_left
        asking.answered, asking.answer = world.loop.now, connection.ended
        world.trace(self.name, f"{what} ended {hearing.how}, heard {[id_ for _, id_, _ in hearing.heard]}")
        return hearing


def _message_of(hearing: Hearing) -> bool:
    """Return True if the stream carried a Message instead of a task."""
    return any(isinstance(what, Message) for _, _, what in hearing.heard)


def _how(connection: Connection) -> str:
    if connection.gone:
        return "left"
    if isinstance(connection.ended, ClientError | StoreCorrupt):
        return "refused"
    return "clean" if connection.ended is True else "broken"


def _at_rest(hearing: Hearing) -> bool:
    """Return True if the last status received on this connection is terminal or interrupted."""
    for _, _, what in reversed(hearing.heard):
        status = getattr(what, "status", None)
        if status is not None:
            return status.state in TERMINAL_OR_INTERRUPTED
    return False


def _short(answer: Any) -> str:
    if isinstance(answer, Task):
        return f"{answer.id[-4:]} {TaskState.Name(answer.status.state)} ({len(answer.history)} messages)"
    return repr(answer)[:120]
