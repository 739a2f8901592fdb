"""Wake-up messages in a SQLite file, with the promises of `ports.Bells` and `ports.PushBells`, and their consumer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from aion_core.errors import StoreError
from aion_core.ports import Bell, Clock, PushBell
from aion_core.ports.bells import LONGEST_DELAY, DeadLetter, body_of, push_body_of
from aion_core.sqlite.messages import Message, MessageFile

logger = logging.getLogger(__name__)

MAX_RECEIVES = 5
"""Receives until a message is parked, as in the template's queues."""

VISIBILITY_SECONDS = 60.0
"""Seconds that a message is invisible while it is handled; the consumer prolongs them."""

RETRY_SECONDS = 1.0
"""Seconds until a message that could not be handled is visible again; each further receive doubles them."""

POLL_SECONDS = 0.2
"""Seconds until a message is noticed that another process has sent."""

T = TypeVar("T")


class SQLiteQueue:
    """One queue of the file, by the clock; its methods do not block the event loop."""

    def __init__(self, file: MessageFile, name: str, clock: Clock, *, max_receives: int = MAX_RECEIVES) -> None:
        self._file, self.name, self.clock, self._max_receives = file, name, clock, max_receives
        # A thread of its own: abandoned synchronous nodes may occupy the default executor.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"queue-{name}")
        self.sent: Callable[[], None] = lambda: None
        """Is called, by any thread, when this process has sent a message."""

    async def send(self, body: str, *, delay: float = 0.0) -> None:
        """Send a message that is visible after so many seconds."""
        await self._call(self.send_blocking, body, delay=delay)

    def send_blocking(self, body: str, *, delay: float = 0.0) -> None:
        """Do as `send` in the calling thread."""
        now = self._now()
        self._file.send(
            self.name, body, now=now, visible_at=now + round(min(max(delay, 0.0), float(LONGEST_DELAY)) * 1000)
        )
        self.sent()

    async def receive(self, limit: int) -> list[Message]:
        """Return the oldest visible messages and hide them; one that was received too often is parked and logged."""
        received, parked = await self._call(
            self._file.receive,
            self.name,
            now=self._now(),
            visible_at=self._now() + round(VISIBILITY_SECONDS * 1000),
            limit=limit,
            max_receives=self._max_receives,
        )
        for message in parked:
            logger.error(
                "A message of the %s queue could not be handled %d times, and is parked: see `aion dlq list`. %s",
                self.name,
                message.receives,
                message.body,
            )
        return received

    async def prolong(self, messages: Sequence[Message]) -> None:
        """Hide messages that are still being handled for the visibility timeout from now on."""
        await self._call(self._file.hide, messages, visible_at=self._now() + round(VISIBILITY_SECONDS * 1000))

    async def retry(self, message: Message) -> None:
        """Let the message be visible again after a while; it could not be handled."""
        seconds = RETRY_SECONDS * 2 ** (message.receives - 1)
        await self._call(self._file.hide, [message], visible_at=self._now() + round(seconds * 1000))

    async def delete(self, message: Message) -> None:
        """Delete the message: it has been handled."""
        await self._call(self._file.delete, message)

    async def seconds_to_next(self) -> float | None:
        """Return the seconds until a message is visible, None without one."""
        at = await self._call(self._file.next_at, self.name)
        return None if at is None else max(0, at - self._now()) / 1000

    # ── Dead letters: see `ports.DeadLetters` ─────────────────────────────────────────────────────────────────────────

    async def read(self, limit: int) -> list[DeadLetter]:
        """See `ports.DeadLetters.read`; nothing is hidden."""
        return [
            DeadLetter(str(message.id), message.body, datetime.fromtimestamp(message.sent_at / 1000, UTC))
            for message in await self._call(self._file.parked, self.name, limit)
        ]

    async def give_back(self, letters: Sequence[DeadLetter]) -> None:
        """See `ports.DeadLetters.give_back`."""

    async def send_again(self, letter: DeadLetter) -> None:
        """See `ports.DeadLetters.send_again`."""
        await self._call(self._file.send_again, int(letter.id), now=self._now())

    async def drop(self, letter: DeadLetter) -> None:
        """See `ports.DeadLetters.drop`."""
        await self._call(self._file.drop, int(letter.id))

    def _now(self) -> int:
        return int(self.clock.now().timestamp() * 1000)

    async def _call(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, *arguments, **options))


class SQLiteBells:
    """`ports.Bells` on one queue."""

    def __init__(self, queue: SQLiteQueue) -> None:
        self.queue = queue

    async def ring(self, bell: Bell, *, delay: float = 0.0) -> None:
        """See `ports.Bells.ring`."""
        await self.queue.send(body_of(bell), delay=delay)

    def ring_from_thread(self, bell: Bell, *, delay: float = 0.0) -> None:
        """See `ports.Bells.ring_from_thread`."""
        self.queue.send_blocking(body_of(bell), delay=delay)


class SQLitePushBells:
    """`ports.PushBells` on one queue."""

    def __init__(self, queue: SQLiteQueue) -> None:
        self.queue = queue

    async def ring(self, bell: PushBell, *, delay: float = 0.0) -> None:
        """See `ports.PushBells.ring`."""
        await self.queue.send(push_body_of(bell), delay=delay)


class Consumer:
    """Hands each message of a queue to a function, several at once.

    A message is deleted when the function returns. It is visible again later when the function raises, and when this
    process ends before it has returned.
    """

    def __init__(self, queue: SQLiteQueue, handle: Callable[[str], Awaitable[None]], *, at_once: int) -> None:
        """`handle` is given the text of the message."""
        self._queue, self._handle, self._at_once = queue, handle, at_once
        self._handling: dict[asyncio.Task[None], Message] = {}
        self._noticed = asyncio.Event()
        self._stopped = False
        self._prolonged_at = queue.clock.now()

    async def run(self) -> None:
        """Receive messages until `stop`, or until this is cancelled; what is being handled goes on."""
        loop = asyncio.get_running_loop()

        def notice() -> None:
            # The loop of a server that has ended takes no more.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._noticed.set)

        self._queue.sent = notice
        while not self._stopped:
            self._noticed.clear()
            seconds = POLL_SECONDS
            try:
                await self.receive()
                to_next = await self._queue.seconds_to_next() if len(self._handling) < self._at_once else None
                if to_next is not None:
                    seconds = min(seconds, to_next)
            except StoreError as error:
                logger.error("The %s queue cannot be read: %s", self._queue.name, error)
                seconds = 1.0
            await self._sleep(seconds)

    async def receive(self) -> int:
        """Receive as many messages as may be handled at once beside those that are; return how many that were."""
        await self._prolong()
        free = self._at_once - len(self._handling)
        if self._stopped or free <= 0:
            return 0
        received = await self._queue.receive(free)
        for message in received:
            task = asyncio.create_task(self._work(message))
            self._handling[task] = message
            task.add_done_callback(self._ended)
        return len(received)

    def stop(self) -> None:
        """Receive no more messages."""
        self._stopped = True
        self._noticed.set()

    async def join(self) -> None:
        """Return when the messages that were received have been handled, or have failed."""
        while self._handling:
            await asyncio.wait(self._handling)

    async def _work(self, message: Message) -> None:
        try:
            await self._handle(message.body)
        except Exception:  # whatever it was, the message was not handled
            logger.exception("A message of the %s queue was not handled.", self._queue.name)
            settle = self._queue.retry
        else:
            settle = self._queue.delete
        try:
            await settle(message)
        except StoreError as error:
            logger.warning("A message of the %s queue will be received again: %s", self._queue.name, error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._handling[task]
        self._noticed.set()

    async def _prolong(self) -> None:
        now = self._queue.clock.now()
        if self._handling and (now - self._prolonged_at).total_seconds() >= VISIBILITY_SECONDS / 3:
            self._prolonged_at = now
            await self._queue.prolong(list(self._handling.values()))

    async def _sleep(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._queue.clock.sleep(seconds))
        noticed = asyncio.ensure_future(self._noticed.wait())
        try:
            await asyncio.wait({sleeping, noticed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            noticed.cancel()
