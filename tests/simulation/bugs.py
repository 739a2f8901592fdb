"""Planted bugs in the engine's turns, streams and push notifications, which the simulation must find."""

from aion_core.engine import sweep, timers
from aion_core.engine.admission import repeats
from aion_core.engine.admission.admission import MessageAdmission
from aion_core.engine.cancellation import Cancellation
from aion_core.engine.context import changes, record
from aion_core.engine.delivery import readiness, rows, transitions
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.fenced_writes import FencedWrites
from aion_core.engine.remote_calls.cancellation import RemoteCancellations
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.engine.runner import failures
from aion_core.engine.runner.execution import TurnExecution
from aion_core.engine.runner.lease_term import LeaseTerm
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.service import TaskService
from aion_core.engine.stream import subscription
from aion_core.engine.stream.delta_writer import DeltaWriter
from aion_core.engine.sweep import Sweep
from aion_core.engine.task import head, subscribers, transition
from aion_core.engine.task_store import TaskStore
from aion_core.engine.turn import end, progress, start
from aion_core.engine.wake_ups import CommitNotifier
from aion_core.push import attempts, retry_delay
from aion_core.push.attempts import DeliveryAttempts
from aion_core.push.circuit_breaker import CircuitBreaker
from aion_core.push.delivery import PushDelivery
from aion_core.push.poster import EventPoster
from tests.simulation.faults import Aim, Fault
from tests.simulation.planting import Bug, Edit

TOLD, LISTENS_LATE, FORGOTTEN = ("told of a task",), ("begins to listen late",), ("kept for an hour",)
DELEGATES = ("cancels a call", "texts again during a call")
READERS = ("readers elsewhere", "leaves in the middle", "stream")
STEPS = ("send and go", "two contexts, two owners")
MONOTONIC = "__import__('asyncio').get_running_loop().time()"
LOST_WAKE_UPS = tuple(Aim(Fault.LOST, "queue.send", number) for number in range(1, 6))


def aims(fault: Fault, kind: str, numbers: range, amount: float = 0.0) -> tuple[Aim, ...]:
    """Return the same planned fault for several side effects of this kind, selected by their numbers."""
    return tuple(Aim(fault, kind, number, amount) for number in numbers)


def bug(
    what: str,
    seen_by: str,
    *edits: Edit,
    scenarios: tuple[str, ...] = (),
    aims: tuple[Aim, ...] = (),
    together: tuple[Aim, ...] = (),
) -> Bug:
    return Bug(what, edits, frozenset(seen_by.split()), scenarios, aims, together)


FROZEN_BETWEEN_STEPS = aims(Fault.FROZEN_BEFORE, "agent.step", range(1, 4), 400.0)

BUGS = [
    bug(
        "speaks before it records",
        "I6",
        Edit(
            TurnExecution,
            "_record",
            "self._head = await self._store.append(",
            "self._broadcast.record(Numbered(self._head.generation + 1, events[0])); self._head = await self._store.append(",
        ),
        scenarios=("stream",),
    ),
    bug(
        "does not look at the fence when it records",
        "I10 I11 I5 I4",
        Edit(head, "as_read", "if fence else ()", "if False else ()"),
        scenarios=("send and go", "stream", "double texting: enqueue"),
    ),
    bug(
        "lets a checkpoint through whoever writes it",
        "I10 I11",
        Edit(FencedWrites, "__init__", "if fence else []", "if False else []"),
        Edit(FencedWrites, "commit_step", "self._fence is not None and not self._advanced", "False"),
        scenarios=("question and answer", "two contexts, two owners"),
        # Freeze the process before each of its first writes. With this bug a frozen process makes only one write,
        # because it notices the lost lease at its next step.
        aims=aims(Fault.FROZEN_BEFORE, "thread.write", range(1, 5), 120.0),
    ),
    bug(
        "trusts the lease after a freeze",
        "I11B",
        Edit(LeaseTerm, "check", "self._clock.now() >= self._until", "False"),
        scenarios=STEPS,
        aims=FROZEN_BETWEEN_STEPS,
    ),
    bug(
        "leaves out the check before a step",
        "I11B",
        Edit(TurnExecution, "request", "self.term.check,", "lambda: None,"),
        scenarios=STEPS,
        aims=FROZEN_BETWEEN_STEPS,
    ),
    bug(
        "judges the lease's term by the monotonic clock",
        "I11B",
        Edit(LeaseTerm, "__init__", "until or clock.now() + self._term", f"{MONOTONIC} + seconds"),
        Edit(LeaseTerm, "renew", "self._clock.now() + self._term", f"{MONOTONIC} + self._term.total_seconds()"),
        Edit(LeaseTerm, "check", "self._clock.now()", MONOTONIC),
        scenarios=STEPS,
        aims=FROZEN_BETWEEN_STEPS,
    ),
    bug(
        "begins a step although its renewal was refused",
        "I11B",
        Edit(
            LeaseTerm, "check", 'raise LeaseLost("The lease has run out, and another process has the turn.")', "return"
        ),
        scenarios=STEPS,
        aims=FROZEN_BETWEEN_STEPS,
    ),
    bug(
        "does not look at the clock after a renewal",
        "I11B",
        Edit(LeaseTerm, "check", "while self._clock", "if self._clock"),
        scenarios=STEPS,
        together=(
            Aim(Fault.FROZEN_BEFORE, "agent.step", 1, 31.0),
            Aim(Fault.FROZEN_AFTER, "renew.write_blocking", 1, 95.0),
        ),
    ),
    bug(
        "takes a conflict for a renewal",
        "I11B",
        Edit(TaskStore, "renew", "if not refused.is_conflict:\n    return False", "return refused.is_conflict"),
        scenarios=STEPS,
        together=(
            Aim(Fault.FROZEN_BEFORE, "agent.step", 1, 400.0),
            Aim(Fault.CONFLICT, "renew.write_blocking", 1),
        ),
    ),
    bug(
        "records a late result under the newest fence",
        "I10",
        Edit(progress, "still_mine", "(now.generation, now.fence) != (head.generation, head.fence)", "now.state in ()"),
        Edit(progress, "still_mine", "replace(head, push_epoch=now.push_epoch, push_events=now.push_events)", "now"),
        scenarios=STEPS,
        aims=aims(Fault.OVERTAKEN, "agent.within", range(1, 6)),
    ),
    bug(
        "does not give the lease back",
        "I14 I16",
        Edit(changes, "released", "(*LEASE_ATTRIBUTES, *TIMER_ATTRIBUTES)", "()"),
        scenarios=("send and go", "send and wait"),
    ),
    bug(
        "forgets the wake_up of a turn that waits",
        "I16",
        Edit(MessageAdmission, "_wake_for", "await wake(self._work_queue, context)", "pass"),
        scenarios=("send and go",),
    ),
    bug(
        "forgets the wake_up of what a cancel leaves behind",
        "I16",
        Edit(Cancellation, "cancel", "if ended.waiting:", "if False:"),
        scenarios=("cancel what waits",),
    ),
    bug(
        "forgets the wake_up of a turn that is handed on",
        "I16 I16B",
        Edit(TaskRunner, "_suspend", "await wake(self._work_queue, turn.lease.context, delay=delay)", "pass"),
        scenarios=("past fifteen minutes",),
    ),
    bug(
        "counts each try twice",
        "I15",
        Edit(start, "beginning", "tries=turn.tries + 1", "tries=turn.tries + 2"),
    ),
    bug(
        "counts no try",
        "I16 I14 I1",
        Edit(start, "beginning", "tries=turn.tries + 1", "tries=0"),
        scenarios=("an agent that hangs",),
    ),
    bug(
        "goes on counting the tries of a turn that gets on",
        "I15",
        Edit(progress, "suspended", "tries=0, handoffs", "handoffs"),
        scenarios=("past fifteen minutes",),
    ),
    bug(
        "knows a messageId in every context of its owner",
        "I13 I1",
        Edit(
            repeats,
            "message_keys_of",
            "keys.message_key(context, message_id)",
            'keys.message_key(ContextKey(context.owner, context.agent, "any"), message_id)',
        ),
        scenarios=("two contexts, two owners",),
    ),
    bug(
        "does not know a messageId again",
        "I2",
        Edit(repeats, "message_row", "**times.stamp(task.owner)}, only_if)", "**times.stamp(task.owner)})"),
        scenarios=("one messageId, many sends",),
    ),
    bug(
        "forgets that the retry of a message is its own",
        "I2 I10 I14 I16 I16B I27 I1",
        Edit(
            TaskStore,
            "_created_before",
            "return new_tasks.created_before(new, record, head, holder)",
            "return TurnQueued(head, record.held_until())",
        ),
        scenarios=("send and wait", "stream"),
        aims=aims(Fault.ANSWER_LOST, "create.transact", range(1, 2)),
    ),
    bug(
        "cancels without raising the fence",
        "I10 I12",
        Edit(end, "canceled", "record.fence + 1 if takes else record.fence", "record.fence"),
        scenarios=("cancel",),
    ),
    bug(
        "writes an event over another",
        "I4 I5 I10 I12 I17",
        Edit(head, "as_read", 'Equals("generation", head.generation)', 'Equals("agent", head.context.agent)'),
        scenarios=("double texting: interrupt", "cancel", "follow-up at the end"),
        aims=aims(Fault.FROZEN_BEFORE, "cancel.transact", range(1, 5), 120.0),
    ),
    bug(
        "ends a task for which a message waits",
        "I1 I4 I14",
        Edit(end, "next_turn", "if ending.after.state in states.TERMINAL and waits:", "if False:"),
        scenarios=("follow-up at the end", "double texting: enqueue"),
    ),
    bug(
        "gives the subscriber a snapshot and its last event once more",
        "I6",
        Edit(subscription, "beginning", "return Cursor(generation)", "return Cursor(generation - 1)"),
        scenarios=("readers elsewhere",),
    ),
    bug(
        "reads the tail from one event too far",
        "I6",
        Edit(subscription, "tail", "after.generation, since)", "after.generation + 1, since)"),
        scenarios=("readers elsewhere",),
    ),
    bug(
        "ends the tail before it has told the end",
        "I6 I16 I6B",
        Edit(
            subscription,
            "tail",
            """
            if items:
                yield items
            if log.head.state in ends:
                return
            """,
            """
            if log.head.state in ends:
                return
            if items:
                yield items
            """,
        ),
        scenarios=("readers elsewhere", "leaves in the middle"),
    ),
    bug(
        "closes a subscription while its task asks",
        "I33",
        Edit(
            TaskService,
            "_subscribe",
            "self._tail(call, log.head.key, after, ends)",
            "self._tail(call, log.head.key, after)",
        ),
        scenarios=("reads on over a question",),
    ),
    bug(
        "lets a reader hear the chunks of a fence that is over",
        "I6 I6D I6C",
        Edit(subscription, "merge", "if of_this_event and of_this_event[0].fence < batch.fence:", "if False:"),
        Edit(subscription, "merge", "if not of_this_event or of_this_event[0].fence == batch.fence:", "if True:"),
        Edit(subscription, "_add_chunks", "elif batch.fence < after.fence:", "elif False:"),
        scenarios=READERS,
    ),
    bug(
        "writes the chunks after the event that they precede",
        "I6C",
        Edit(
            TurnExecution,
            "_record",
            """
            await self._deltas.flush()
            self._head = await self._store.append(self.lease, self._head, *events, keys=keys)
            """,
            """
            self._head = await self._store.append(self.lease, self._head, *events, keys=keys)
            await self._deltas.flush()
            """,
        ),
        scenarios=("readers elsewhere",),
        aims=tuple(Aim(Fault.SLOW, "append_deltas.write", number, 2.5) for number in range(1, 6)),
    ),
    bug(
        "closes an open text at each event",
        "I6D",
        Edit(
            TurnExecution,
            "_record",
            "await self._deltas.flush()",
            "self.text.close(COMPLETE); await self._deltas.flush()",
        ),
        scenarios=("stream",),
    ),
    bug(
        "continues a text for readers without its beginning",
        "I6D",
        Edit(subscription, "_continued", "if before is not None and before.until == shown:", "if True:"),
        scenarios=READERS,
    ),
    bug(
        "forgets the cursor when a turn is taken over",
        "I6",
        Edit(TaskService, "_stream", "after = admitted.broadcast.cursor()", "after = Cursor()"),
        scenarios=("stream", "past fifteen minutes"),
    ),
    bug(
        "takes the claim for the wake_up",
        "I16",
        Edit(sweep, "_claimed_and_sent", "if claimed := await claim(timer):", "if claimed := True:"),
    ),
    bug(
        "takes each message of a backlog for lost",
        "I16",
        Edit(Sweep, "_waits", "await self._lost(len(overdue)) if overdue else 0", "len(overdue)"),
        scenarios=("behind a backlog",),
    ),
    bug(
        "finds no lost message",
        "I1 I14 I16",
        Edit(Sweep, "_waits", "await self._lost(len(overdue)) if overdue else 0", "0"),
        scenarios=("behind a backlog",),
    ),
    bug(
        "reads no waiting contexts",
        "I1 I14 I16",
        Edit(Sweep, "_waits", "overdue_waits(limit=at_once)", "overdue_waits(limit=0)"),
        scenarios=("behind a backlog",),
    ),
    bug(
        "forgets what it has claimed",
        "I1 I14 I16",
        Edit(
            timers,
            "claimed_timer",
            'return Change({"due_at": times.lease_until, **moved}, only_if=as_read)',
            "return Change(remove=NO_TIMER, only_if=as_read)",
        ),
    ),
    bug(
        "sets no timer for a turn that waits",
        "I1 I14 I16",
        Edit(changes, "queued", "if timer else {}", "if False else {}"),
    ),
    bug(
        "begins a turn whose holder lives",
        "I10",
        Edit(record, "turn_to_begin", "if record.until > now else", "if False else"),
    ),
    bug(
        "begins a turn behind a question",
        "I10 I1",
        Edit(record, "turn_to_begin", "None if record.interrupted is not None else", "None if False else"),
        Edit(changes, "acquired_next", "NOTHING_RUNS, NO_INPUT_REQUIRED,", "NOTHING_RUNS,"),
    ),
    bug(
        "does not note that a task requires input",
        "I10 I1 I14",
        Edit(changes, "released_for_input", '{"interrupted": lease.turn.task_id}', "{}"),
        scenarios=("answered in the context", "cancel what waits", "question and answer"),
    ),
    bug(
        "runs on when the lease is lost",
        "I12",
        Edit(TaskRunner, "_run", "{work, lost, end}", "{work, end}"),
        scenarios=("cancel",),
    ),
    bug(
        "does not ring again for a turn whose holder lives",
        "I16B",
        Edit(
            Worker, "handle", "if begun.fence == wake_up.fence or left < self._runner.lease_seconds / 2:", "if False:"
        ),
        scenarios=("send and go", "cancel", "double texting: enqueue"),
    ),
    bug(
        "says again what a step has said before it died",
        "I5",
        Edit(
            TurnExecution,
            "emit",
            "if not emission.key or (emission.key not in self._keys and emission.key not in keys):",
            "if True:",
        ),
    ),
    bug(
        "tells what its own agent said of its failure",
        "I15",
        Edit(failures, "reason_of", "if not reveal:", "if False:"),
        scenarios=("agents that misbehave", "double texting: enqueue"),
    ),
    bug(
        "lets a task go on after its end",
        "I4 I3",
        Edit(head, "advance", "if head.state in TERMINAL:", "if False:"),
        Edit(head, "advance", "if head.generation and not may_follow", "if False and not may_follow"),
        Edit(Cancellation, "cancel", "if head.state in states.TERMINAL:", "if False:"),
        scenarios=("cancel",),
    ),
    bug(
        "loses a batch of chunks when it writes the next",
        "I6C I6E",
        Edit(
            DeltaWriter,
            "_write",
            "for page in _pages(self._pending, self._pending_characters):",
            "for page in _pages(self._pending[1:], self._pending_characters):",
        ),
        scenarios=("readers elsewhere",),
    ),
    bug(
        "sets no timer for an event that a subscriber wants",
        "I8",
        Edit(transition, "new_event", "notifies=has_subscriber_for(head, event)", "notifies=False"),
        scenarios=TOLD,
        aims=LOST_WAKE_UPS,
    ),
    bug(
        "forgets the wake_up of a notification",
        "I16 I16C",
        Edit(CommitNotifier, "_enqueue_beside", "if head.key not in self._enqueuing:", "if False:"),
        scenarios=TOLD,
    ),
    bug(
        "passes an event before it is posted",
        "I8",
        Edit(
            EventPoster,
            "_post",
            "outcome = await self._attempts.make(claim, entry, may_be_skipped=not is_last)",
            "claim = await self._store.advance(claim, cursor=entry.generation, until=self.claimed_until()); "
            "outcome = await self._attempts.make(claim, entry, may_be_skipped=not is_last)",
        ),
        scenarios=TOLD,
        aims=tuple(Aim(Fault.CRASH_BEFORE, "webhook.post", number) for number in range(1, 4)),
    ),
    bug(
        "never forgets an event that everybody has passed",
        "I14 I16",
        Edit(PushDelivery, "_clear_timers", "await self._store.clear(task, generation)", "pass"),
        scenarios=TOLD,
    ),
    bug(
        "posts for a config that was deleted",
        "I8",
        Edit(rows, "change", 'Equals("revision", before.revision)', "None"),
        scenarios=LISTENS_LATE,
        aims=aims(Fault.SLOW, "webhook.post", range(1, 4), 6.0),
    ),
    bug(
        "tells who listens late of what was before",
        "I8",
        Edit(PushConfigs, "put", "after=head.generation", "after=0"),
        scenarios=LISTENS_LATE,
    ),
    bug(
        "does not look whether another has the claim",
        "I8",
        Edit(rows, "change", 'Equals("revision", before.revision)', "None"),
        Edit(readiness, "is_claimed", "delivery.claimed_until > now", "False"),
        scenarios=(*TOLD, *LISTENS_LATE),
    ),
    bug(
        "posts the newest first",
        "I8",
        Edit(EventPoster, "_post_all", "for entry in log.events:", "for entry in reversed(log.events):"),
        scenarios=TOLD,
    ),
    bug(
        "gives up after the first try",
        "I8",
        Edit(EventPoster, "_fail", "if wait is None:", "if True:"),
        scenarios=TOLD,
    ),
    bug(
        "never gives up",
        "I14 I16",
        Edit(retry_delay, "delay", "if tries >= len(retry_seconds):", "tries %= len(retry_seconds)\n    if False:"),
        scenarios=TOLD,
    ),
    bug(
        "gives each try an id of its own",
        "I9",
        Edit(
            attempts,
            "notification_id",
            "{task.task_id}_{generation}",
            "{__import__('random').random()}_{task.task_id}_{generation}",
        ),
        scenarios=TOLD,
    ),
    bug(
        "gives up what it has spared",
        "I8",
        Edit(DeliveryAttempts, "make", "self._clock.now()) and may_be_skipped:", "self._clock.now()):"),
        Edit(CircuitBreaker, "record", "if circuit.failures >= FAILURES_TO_OPEN:", "if True:"),
        scenarios=TOLD,
    ),
    bug(
        "forgets who begins to listen as it is found that nobody does",
        "I8",
        Edit(subscribers, "without_subscribers", 'Equals("push_epoch", head.push_epoch)', 'Exists("push_epoch")'),
        Edit(PushDelivery, "deliver", "if not deliveries and head.push_events is not None:", "if True:"),
        scenarios=LISTENS_LATE,
    ),
    bug(
        "goes on with who has said that it is gone",
        "I8 I14 I16",
        Edit(transitions, "disabled", "disabled=True", "disabled=False"),
        scenarios=TOLD,
    ),
    bug(
        "takes each message of a backlog of notifications for lost",
        "I16",
        Edit(
            sweep,
            "_without_message",
            "tasks[: lost_messages(len(waiting - in_delivery), messages)] if messages else tasks",
            "tasks",
        ),
        scenarios=("told behind a backlog",),
    ),
    bug(
        "finds no lost message of a notification",
        "I16C",
        Edit(Sweep, "_push_waits", "await _without_message(configs, queue, overdue)", "()"),
        scenarios=("told behind a backlog",),
    ),
    bug(
        "sweeps no notifications",
        "I8 I14 I16",
        Edit(Sweep, "once", "(self._push_plans, pushes_at_once),", ""),
        Edit(Sweep, "once", "(self._push_waits, pushes_at_once),", ""),
        scenarios=TOLD,
        aims=LOST_WAKE_UPS,
    ),
    bug(
        "cancels no remote task",
        "I32",
        Edit(RemoteCallStore, "cancellations", "if head.calls", "if False"),
        Edit(RemoteCallStore, "to_cancel", "if rest := _cancelable(items):", "if rest := []:"),
        scenarios=DELEGATES,
    ),
    bug(
        "misses a remote call that begins as its task is canceled",
        "I32",
        Edit(head, "with_calls_as_read", "return replace(change, only_if=", "return change; (calls, "),
        scenarios=DELEGATES,
        aims=aims(Fault.SLOW, "cancel.get", range(1, 4), 2.5),
    ),
    bug(
        "sends another message after a crash",
        "I30",
        Edit(
            RemoteCallStore,
            "begin",
            "return TransactionPlan(await self._rows.call_of(item))",
            "return TransactionPlan(call)",
        ),
        scenarios=("calls a remote agent",),
    ),
    bug(
        "sweeps no remote calls",
        "I14 I32",
        Edit(Sweep, "once", "(self._cancellations, CALLS_AT_ONCE),", ""),
        scenarios=("cancels a call",),
        aims=LOST_WAKE_UPS,
    ),
    bug(
        "gives a remote task up at once",
        "I32",
        Edit(RemoteCancellations, "_attempt", "if outcome is Canceled.DONE:", "if True:"),
        scenarios=("cancels a call",),
        aims=aims(Fault.THROTTLED, "remote.cancel", range(1, 3)),
    ),
]
