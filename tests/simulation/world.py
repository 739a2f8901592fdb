"""World of one schedule: the table, the queue, the time, the processes, and the history."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from aion_core.engine.agent import TurnRequest
from aion_core.engine.call import CallContext
from aion_core.engine.queues import LONGEST_DELAY, PushWakeUp, WakeUp
from aion_core.engine.task.log import TaskLog
from aion_core.errors import StoreUnavailable
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.local.memory.cipher import MemoryCipher
from aion_core.table import keys
from aion_core.table.keys import ContextKey, TaskKey
from aion_core.table.reads import Reads
from aion_core.table.semantics.tokens import TOKEN_LIFE
from tests.simulation import assembly
from tests.simulation.agents import PROGRAMS, text_of
from tests.simulation.deployment import Deployment
from tests.simulation.faults import HARMLESS, Aim, Fault, FaultPlan
from tests.simulation.history import Did, History, Post
from tests.simulation.loop import LIFE, Deadlock, Runaway, SimClock, SimLoop, SimTask, no_logging
from tests.simulation.processes import INVOCATION_SECONDS, Process
from tests.simulation.queue import Letter, WakeUpQueue
from tests.simulation.receivers import Receiver, ReceiverAnswer, fine
from tests.simulation.remotes import RemoteAgent, RemoteTask
from tests.simulation.server import Entrypoint
from tests.simulation.table import HALF_MADE, SimFaults, SimOperation
from tests.simulation.watch import Watch
from tests.support.faulty_table import FaultyTable

SWEEP_SECONDS = 60.0
MARGIN_SECONDS = 5.0
"""The runtime loop stops the app this long before the deadline."""
MOST_SECONDS = 2 * 3600.0
"""Longest time to finish all work after the last client has ended: enough for five receives of a message."""


class SimWorld:
    """One schedule: a seed, a plan of faults, and its history."""

    def __init__(
        self,
        seed: int,
        plan: FaultPlan | None = None,
        *,
        deployment: Deployment | None = None,
        clocks_stop: bool | None = None,
        tracing: bool = False,
    ) -> None:
        # Use separate random generators, so that a fault does not change the clients' actions or the execution order.
        self.random, self.choices = Random(f"{seed} latencies"), Random(f"{seed} clients")
        self.callbacks = Random(f"{seed} callbacks")
        self.loop = SimLoop(Random(f"{seed} order"))
        self.clocks_stop = Random(f"{seed} clocks").random() < 0.5 if clocks_stop is None else clocks_stop
        """True if the monotonic clock of a frozen or idle process stands still, as on Lambda; by SIGSTOP it goes on."""
        self.plan = plan or FaultPlan()
        self.deployment, self.release = deployment or Deployment(), 0
        self.page_items = self.choices.choice((None, None, None, 3))
        self.tokens: dict[str, float] = {}
        """Time of the first transaction with each token."""
        still = SimClock(self.loop, tick=0.0)
        self.table, self.blobs, self.cipher = FaultyTable(still, faults=SimFaults(self)), MemoryBlobs(), MemoryCipher()
        self.reads = Reads(self.table, still)
        self.log = TaskLog(self.reads, self.blobs)
        """The logs of all tasks, read without faults."""
        self.history = History()
        self.watch = Watch(self)
        self.remote = RemoteAgent(self)
        self.receiver: Receiver = fine
        """The webhook of the clients."""
        self.queue = WakeUpQueue(self.outside, self.random, self._deliver)
        self.entrypoint_url = Entrypoint(self)
        self.processes: list[Process] = []
        self._usable: list[Process] = []
        """Living processes with the newest code."""
        self.unavailable_until = 0.0
        self.left: list[SimTask] = []
        """asyncio tasks that still run in idle processes."""
        self._overtaken: list[tuple[Process, Callable[[], Any], float]] = []
        self.skewed = False
        self.thawed = 0.0
        """Time at which the last frozen process continues."""
        self.purged = False
        self.lost_messages = 0
        """Number of messages that the scenario itself has lost."""
        self.backlog_until = 0.0
        """Time at which workers begin to work off a backlog of messages."""
        self.over = False
        """True after the schedule; afterwards its asyncio tasks are only cancelled."""
        self.aim: Aim | None = None
        self.tracing, self.lines = tracing, list[str]()
        self._ids = 0

    # ── A schedule ────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, scenario: Callable[["SimWorld"], Awaitable[Any]]) -> None:
        """Let the scenario's clients act, then wait until all work is done."""
        self.loop.set_exception_handler(self._surprise)
        with no_logging(self.tracing), assembly.deterministic(self):
            try:
                self.loop.run_until_complete(self._live(scenario))
            except (Deadlock, Runaway) as stuck:
                self.history.surprises.append(f"I16: {stuck}")
            finally:
                self.over = True
                self._put_away()

    async def _live(self, scenario: Callable[["SimWorld"], Awaitable[Any]]) -> None:
        sweeping = asyncio.ensure_future(self._sweep_each_minute())
        try:
            async with asyncio.timeout(16 * 3600.0):
                await scenario(self)
        except TimeoutError:
            self.history.surprises.append("I16: a client waited for sixteen hours.")
        gone = self.loop.now
        while not self.quiet() and self.loop.now < max(gone, self.thawed) + MOST_SECONDS:
            await asyncio.sleep(1.0 if self.loop.now < gone + 300 else 30.0)
        # Wait for two sweeps, because a timer that expires within two minutes starts further work.
        await asyncio.sleep(SWEEP_SECONDS * 2 + 1)
        while not self.quiet() and self.loop.now < max(gone, self.thawed) + MOST_SECONDS:
            await asyncio.sleep(30.0)
        sweeping.cancel()
        await self._count_what_is_left()

    async def _count_what_is_left(self) -> None:
        """Resume each idle process once more; record the asyncio tasks that it left unfinished."""
        resting = [process for process in self.processes if process.alive and not process.busy]
        for process in resting:
            self.loop.release(process.life)
            self.loop.release(process.beating)
        await asyncio.sleep(self.deployment.watch_seconds + 0.5)
        # Wait until no process is frozen, because a heartbeat may meet another fault here and freeze again.
        while self.loop.now < self.thawed:
            await asyncio.sleep(self.thawed - self.loop.now + 1.5)
        lives = [process.life for process in resting]
        self.left = [task for task in self.loop.everything if not task.done() and task.life in lives]
        # Wait for the queue's longest delay: a frozen heartbeat may have just enqueued another wake-up message. Its
        # consumer may freeze as well.
        end = self.loop.now + LONGEST_DELAY + SWEEP_SECONDS * 2
        while self._works() and self.loop.now < max(end, self.thawed + 2):
            await asyncio.sleep(1.0)

    def quiet(self) -> bool:
        """Return True if nothing runs and nothing is pending."""
        return not (self._works() or any(self.watch.promised()))

    def _works(self) -> bool:
        return bool(self.queue.open()) or any(process.busy for process in self.processes)

    def promised(self) -> list[str]:
        """Return a sentence for each timer, running turn and queued turn that is still in the table."""
        return list(self.watch.promised())

    def _put_away(self) -> None:
        """Cancel every coroutine, so that the garbage collector closes none during a later schedule."""
        for life in [life for process in self.processes for life in (process.life, process.beating)]:
            life.alive = True
            self.loop.release(life)
        for _ in range(20):
            left = [task for task in self.loop.everything if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            try:
                self.loop._left = 20_000
                self.loop.run_until_complete(asyncio.wait(left, timeout=0.001))
            except (Deadlock, Runaway):
                break
        if left := [task for task in self.loop.everything if not task.done()]:
            self.history.surprises.append(f"I16: {len(left)} coroutines are left to the garbage collector.")
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    @property
    def forgets(self) -> bool:
        """Return True if the retention is so short that tasks may expire within the schedule."""
        return self.deployment.retention < timedelta(days=1)

    def outside(self, seconds: float, act: Callable[..., Any], *arguments: Any) -> asyncio.TimerHandle:
        """Call `act` after this number of seconds, outside of any process."""
        token = LIFE.set(None)
        try:
            return self.loop.call_later(seconds, act, *arguments)
        finally:
            LIFE.reset(token)

    def beside(self, work: Coroutine[Any, Any, Any], *, seconds: float) -> SimTask:
        """Run a transaction outside of any process, so slowly that this many seconds pass between its writes."""
        tokens = LIFE.set(None), HALF_MADE.set(seconds)
        try:
            task = self.loop.create_task(work)
        finally:
            LIFE.reset(tokens[0])
            HALF_MADE.reset(tokens[1])
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def is_made_now(self, token: str) -> bool:
        """Return True for the first transaction with this token; the table ignores a repeated transaction."""
        if token:
            made, self.tokens[token] = self.tokens.get(token), self.tokens.get(token, self.loop.now)
            return made is None or self.loop.now - made >= TOKEN_LIFE.total_seconds()
        return True

    def deploy(self, **changes: Any) -> None:
        """Deploy new settings and new code: old environments finish their invocations and get no new ones."""
        self.release += 1
        self.deployment = replace(self.deployment, **changes)
        self.trace("deploy", f"release {self.release}: {changes}")

    def expire(self) -> None:
        """Delete one or two of the expired items now and then, as TTL does."""
        if self.choices.random() > 0.2:
            return
        expired = self.table.expired(SimClock(self.loop, tick=0.0).now())
        for key in self.choices.sample(expired, min(len(expired), self.choices.randint(1, 2))):
            self.table.delete_expired(SimClock(self.loop, tick=0.0).now(), [key])
            self.watch.follow(key, None)
            if key.partition.startswith("CONTEXT#"):
                self.history.forget(keys.context_of(key))

    def new_id(self) -> str:
        """Return an id, the same in each run of the schedule, and greater than those before it."""
        self._ids += 1
        return f"00000000-0000-7000-8000-{self._ids:012d}"

    def trace(self, who: str, what: str) -> None:
        """Record a line for the trace of a replay."""
        if self.tracing:
            self.lines.append(f"{self.loop.now:11.3f}  {who:10} {what}")

    def _surprise(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not self.over and not isinstance(error, asyncio.CancelledError):
            self.history.surprises.append(f"Nobody took {error!r}: {context.get('message')}")

    # ── Processes ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, function: str) -> Process:
        """Return an environment of the function for a call: a new one, or an idle one."""
        self._usable = [process for process in self._usable if process.alive and process.release == self.release]
        named = [process for process in self._usable if process.name.startswith(function)]
        idle = [process for process in named if process.many or not process.busy]
        if idle and self.random.random() < 0.5:
            return self.random.choice(idle)
        skew = self.random.choice((0.0, 0.0, 0.0, -5.0, -0.2, 0.2, 5.0))
        process = Process(self, f"{function}-{len(self.processes)}", skew=skew)
        process.parts = assembly.assemble(process)
        self.processes.append(process)
        self._usable.append(process)
        return process

    def begin(
        self, process: Process, work: Callable[[CallContext], Coroutine[Any, Any, Any]], owner: str = "nobody"
    ) -> SimTask:
        """Begin an invocation of the process with this work."""
        aim = self.plan.at("invoke")
        # Let some invocations end after 70 seconds, so that they must hand off longer turns.
        seconds, really = self.random.choice((*(INVOCATION_SECONDS,) * 14, 70.0)), None
        if aim is not None:
            self.befalls(aim, "invoke", process)
            if aim.fault is Fault.TIME_IS_SHORT:
                seconds = aim.amount
            elif aim.fault is Fault.KILLED_SOON:
                really = aim.amount
        self.history.short_invocations += seconds < INVOCATION_SECONDS
        process.invoked(seconds, really=really)
        call = assembly.call(process, owner)
        return process.start(self._invocation(process, work(call), call))

    async def _invocation(self, process: Process, work: Coroutine[Any, Any, Any], call: CallContext) -> None:
        """Run the call and its background work, and stop them near the deadline, as the runtime loop does."""
        serving = asyncio.ensure_future(self._with_its_work(work, call))
        margin = min(MARGIN_SECONDS, max(0.0, process.remaining() / 2))
        await asyncio.wait({serving}, timeout=max(0.0, process.remaining() - margin))
        if not serving.done():
            serving.cancel()
            await asyncio.wait({serving}, timeout=MARGIN_SECONDS / 3)
        process.rests()

    async def _with_its_work(self, work: Coroutine[Any, Any, Any], call: CallContext) -> None:
        try:
            await work
            await call.background.wait()
        finally:
            for task in call.background:
                task.cancel()

    async def _sweep_each_minute(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            if self.forgets:
                self.expire()
            process = self.process("sweep")
            self.begin(process, partial(self._sweep, process))

    def _sweep(self, process: Process, _: CallContext) -> Coroutine[Any, Any, None]:
        return self._guarded(process, assembly.sweep(process))

    async def _guarded(self, process: Process, work: Awaitable[Any]) -> None:
        try:
            await work
        except StoreUnavailable:
            pass  # the next sweep tries again
        except Exception as error:
            self.history.surprises.append(f"{process.name} raised {error!r}")

    # ── Callbacks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def call_back(self, token: str, reported: RemoteTask | None) -> None:
        """Let the remote agent call the API back, for the task that it reports."""
        process = self.process("api")

        async def used() -> None:
            is_used = await assembly.call_back(process, token)
            if is_used and reported is not None:
                self.remote.heard_back.append((self.loop.now, reported))

        self.begin(process, lambda _: self._guarded(process, used()))

    # ── Wake-up messages ──────────────────────────────────────────────────────────────────────────────────────────────

    def enqueue_message(self, process: Process, wake_up: WakeUp | PushWakeUp, delay: float) -> None:
        """Put a wake-up message into the queue, with the schedule's faults."""
        history = self.history
        history.work_queue += 1
        if process.name.startswith("sweep") and isinstance(wake_up, PushWakeUp):
            if wake_up.task in history.claimed_pushes:
                history.claimed_pushes.remove(wake_up.task)
            else:
                history.surprises.append(
                    f"I16: {process.name} sent a wake-up message for an item that it had not claimed."
                )
        elif process.name.startswith("sweep"):
            assert isinstance(wake_up, WakeUp)
            if wake_up.task_id:
                assert self.deployment.delegates
            elif wake_up.context in history.claimed:
                history.claimed.remove(wake_up.context)
            else:
                history.surprises.append(
                    f"I16: {process.name} sent a wake-up message for an item that it had not claimed."
                )
        aim = self.aim
        fault = aim.fault if aim is not None else None
        if fault is Fault.LOST:
            return
        if fault is Fault.PURGED:
            self._purge()
            return
        assert aim is not None or fault is None
        for _ in range(1 + int(aim.amount) if aim is not None and fault is Fault.DOUBLED else 1):
            self.queue.put(
                wake_up, min(LONGEST_DELAY, delay + aim.amount) if aim is not None and fault is Fault.LATE else delay
            )

    def _purge(self) -> None:
        self.purged = True
        self.queue.purge()

    def _deliver(self, letter: Letter) -> None:
        aim = self.plan.at("queue.receive")
        fault = aim.fault if aim is not None else None
        process = self.process("push" if isinstance(letter.wake_up, PushWakeUp) else "task")
        if aim is not None:
            self.befalls(aim, "queue.receive", process)
            if fault is Fault.LATE:
                letter.received -= 1
                self.queue.show(letter, aim.amount)
                return
            if fault is Fault.PURGED:
                self._purge()
                return
            if fault is Fault.SEEN_AGAIN:
                self.queue.show(letter, aim.amount)
            if fault is Fault.DOUBLED:
                for _ in range(int(aim.amount)):
                    self.queue.show(letter, self.random.choice((0.0, 0.05, 1.0)))
            if fault is Fault.POISONED:
                self.queue.put(WakeUp(ContextKey("nobody", "nothing", "nowhere")))
            if fault is Fault.REDRIVEN:
                self.outside(aim.amount, self.queue.put, letter.wake_up)
        self.trace("queue", f"delivers {letter.wake_up} to {process.name}")
        fails = fault is Fault.HANDLER_FAILS
        self.begin(process, lambda _: self._handle(process, letter, fails=fails))

    async def _handle(self, process: Process, letter: Letter, *, fails: bool) -> None:
        try:
            if fails:
                raise StoreUnavailable("The handler failed at once.")
            await assembly.handle_wake_up(process, letter.wake_up)
        except StoreUnavailable:
            return  # keep the message, which becomes visible again
        except Exception as error:
            self.history.surprises.append(f"{process.name} raised {error!r}")
            return
        await process.effect("queue.delete", lambda: self.queue.delete(letter))

    # ── History ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def unavailable(self) -> bool:
        """Return True if the table is in a burst of throttling."""
        return self.loop.now < self.unavailable_until

    def befalls(self, aim: Aim, kind: str, process: Process) -> None:
        """Record in the history that this fault has happened in the process."""
        self.trace(process.name, f"!! {aim.fault.value} at {kind} ({aim.amount:g})")
        self.history.faults.append((self.loop.now, aim.fault.value, kind, process.name))
        self.history.troubled.add(process.name)

    def tell(self, process: Process, made: SimOperation, result: Any) -> None:
        """Record the result of an operation, or its error, as received by the process."""
        history = self.history
        first: Any = next(iter(made.arguments), None)
        if isinstance(result, asyncio.CancelledError) and made.method in ("create", "follow_up", "begin", "finish"):
            history.unheard = True
        if isinstance(result, BaseException):
            return
        if made.method == "claim" and made.name == "claim" and result:
            history.claimed.append(first.context)
            harmless = all(fault in HARMLESS for _, fault, _, _ in history.faults)
            if harmless and not history.deaths and not history.unheard:
                self._was_needless(process)
        elif made.method == "claim_expired" and result:
            history.claimed_pushes.append(first.task)
            if not history.faults and not history.deaths and self.receiver is fine:
                if not self.lost_messages:
                    history.surprises.append(f"I16: {process.name} had to wake {first}, and nothing had gone wrong.")
                elif process.push_queue.counted >= self.watch.waiting_tasks():
                    history.surprises.append(f"I16: {process.name} multiplied the messages of a backlog.")
        elif made.method == "give_up" and made.options["failure"] == assembly.SKIPPED:
            history.surprises.append(f"I8: {process.name} gave up what it had not tried: {result.delivery}.")
        elif made.method == "fail" and made.options["failure"] == assembly.SKIPPED:
            history.spared[first.delivery.task, first.delivery.config_id] += 1

    def _was_needless(self, process: Process) -> None:
        """Note a violation if a sweep claims a context although nothing is lost, or each context has a message."""
        if not self.lost_messages:
            self.history.surprises.append(f"I16: {process.name} had to wake a context, and no process had died.")
        elif not self.history.faults and self.queue.waiting(WakeUp) >= self.watch.waiting():
            self.history.surprises.append(f"I16: {process.name} multiplied the messages of a backlog.")

    def lease_taken(self, process: Process) -> None:
        """Continue the processes that are frozen until another process acquires a lease."""
        for process_, thaw, seconds in self._overtaken:
            if process_ is not process:
                self.outside(seconds, thaw)
        self._overtaken = [waits for waits in self._overtaken if waits[0] is process]

    def receives(self, process: Process, headers: Mapping[str, str]) -> ReceiverAnswer:
        """Deliver a notification to its receiver, and record the post."""
        task = TaskKey(headers["owner"], headers["task"])
        answer = self.receiver(self, headers)
        claimed = self.history.claims[process.name, task, headers["config"]]
        self.history.posts.append(
            Post(
                self.loop.now, process.name, task, headers["config"], int(headers["generation"]), headers["id"],
                answer.outcome, claimed,
            )
        )  # fmt: skip
        return answer

    def waits_for_takeover(self, process: Process, thaw: Callable[[], Any], seconds: float) -> None:
        """Call `thaw` this many seconds after another process acquires a lease."""
        self._overtaken.append((process, thaw, seconds))

    def agent_did(self, process: Process, asked: TurnRequest, what: str, step: int) -> None:
        """Record an action of an agent, and whether the agent's lease was still valid then."""
        current = self.history.holds_still(asked.context, asked.fence)
        self.trace(process.name, f"agent: {what} (step {step} of {text_of(asked.message)!r}, fence {asked.fence})")
        self.history.agent.append(
            Did(
                self.loop.now, process.name, asked.context, asked.turn.id, asked.task.id, asked.fence, what, step,
                asked.message.message_id, current,
            )
        )  # fmt: skip

    def seconds_of(self, key: TaskKey) -> float:
        """Return the duration in seconds of the task's programs without faults."""
        names = {did.message_id for did in self.history.agent if did.task_id == key.task_id}
        texts = {
            text_of(message)
            for entry in self.history.log[key]
            for message in (
                *((entry.numbered.message,) if entry.numbered.message else ()),
                *(getattr(entry.numbered.event, "history", ())),
            )
            if message.message_id in names
        }
        return sum(PROGRAMS[text].seconds() for text in texts if text in PROGRAMS)
