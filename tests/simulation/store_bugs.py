"""Planted bugs in the stores and their rules, and planted bugs that earlier tests missed."""

from aion_core.delegation import looks
from aion_core.engine import timers
from aion_core.engine.admission import follow_ups, repeats
from aion_core.engine.admission.admission import MessageAdmission
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.context import changes, record
from aion_core.engine.limits import open_tasks
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.remote_calls import callbacks
from aion_core.engine.remote_calls.callbacks import RemoteCallbacks
from aion_core.engine.runner.execution import TurnExecution
from aion_core.engine.runner.renewal import LeaseRenewal
from aion_core.engine.runner.runner import TaskRunner
from aion_core.engine.runner.worker import Worker
from aion_core.engine.stream import subscription
from aion_core.engine.stream.delta_writer import DeltaWriter
from aion_core.engine.stream.shared_reads import SharedRead
from aion_core.engine.task import head
from aion_core.engine.task.log import TaskLog
from aion_core.engine.task.rows import LogRows
from aion_core.engine.task_store import TaskStore
from aion_core.engine.turn import progress, start, wait
from aion_core.engine.turn.store import TurnStore
from aion_core.table import retries
from aion_core.table.reads import Reads
from tests.simulation.bugs import FORGOTTEN, LISTENS_LATE, LOST_WAKE_UPS, aims, bug
from tests.simulation.faults import Aim, Fault
from tests.simulation.planting import Edit

STORE_BUGS = [
    bug(
        "begins a suspended turn as soon as any message arrives",
        "I36",
        Edit(record, "turn_to_begin", "is_over = record.wait.until <= now or", "is_over = True or"),
        scenarios=("waits for a time",),
        aims=aims(Fault.DOUBLED, "queue.receive", range(1, 4), 2.0),
    ),
    bug(
        "forgets the timer of a look",
        "I1 I14 I16",
        Edit(changes, "put_to_wait", "**_looked_at(look_at, times),", "**{},"),
        scenarios=("waits for a time",),
        aims=aims(Fault.LOST, "queue.send", range(1, 6)),
    ),
    bug(
        "never hears that an awaited agent has answered",
        "I1 I14 I16",
        Edit(looks, "_has_answer", "return remote.status.state in TERMINAL | INTERRUPTED", "return False"),
        scenarios=("awaits a remote agent",),
    ),
    bug(
        "expects a callback that has come",
        "I37",
        Edit(callbacks, "expected_still", "if call.calls_back", "if False"),
        scenarios=("is called back",),
    ),
    bug(
        "expects a used callback to come again",
        "I37",
        Edit(
            callbacks,
            "_without",
            "calls_back=call.calls_back and call.key != callback.call",
            "calls_back=call.calls_back",
        ),
        scenarios=("is called back",),
    ),
    bug(
        "hears a callback and does not look",
        "I37",
        Edit(
            RemoteCallbacks,
            "use",
            "await wake_to_look(self._work_queue, callback.context, woken, self._clock.now())",
            "pass",
        ),
        scenarios=("is called back",),
    ),
    bug(
        "counts the resumption after a wait as a try",
        "I36",
        Edit(wait, "suspended_turn", "tries=turn.tries if same else 0", "tries=turn.tries"),
        scenarios=("waits for a time",),
    ),
    bug(
        "looks once and never again",
        "I36",
        Edit(Worker, "_resumed", "await wake_to_look(self._work_queue, wake_up.context, suspended, now)", "pass"),
        scenarios=("waits for a time",),
    ),
    bug(
        "forgets the progress of a dead holder",
        "I34",
        Edit(start, "taken_over", "tries=1, handoffs=turn.handoffs + turn.tries - 1", "tries=turn.tries"),
        scenarios=("send and go",),
        together=aims(Fault.CRASH_AFTER, "thread.transact", range(1, 4)),
    ),
    bug(
        "names an earlier stop for a dead holder",
        "I35",
        Edit(start, "taken_over", "replace(turn, stopped_by=StoppedBy.WORKER)", "turn"),
        scenarios=("an agent that hangs",),
        aims=aims(Fault.CRASH_BEFORE, "renew.write_blocking", range(190, 230, 10)),
    ),
    bug(
        "watches a lease only from its first renewal on",
        "I16B",
        Edit(LeaseRenewal, "once", "if held and not self._enqueued:", "if held and renews and not self._enqueued:"),
        scenarios=("send and go",),
        aims=aims(Fault.CRASH_BEFORE, "holds.get_blocking", range(3, 8)),
    ),
    # ── Task store ────────────────────────────────────────────────────────────────────────────────────────────────────
    bug(
        "does not look for its own event after a lost answer",
        "I27",
        Edit(TaskStore, "append", "if await self._log.holds(row.task, row.generation, row.token):", "if False:"),
        scenarios=("send and go",),
        aims=aims(Fault.ANSWER_LOST, "append.transact", range(1, 4)),
    ),
    bug(
        "takes a conflict for the loss of the lease",
        "I27",
        Edit(TaskStore, "renew", "if not refused.is_conflict:", "if True:"),
        scenarios=("send and go",),
        aims=aims(Fault.CONFLICT, "renew.write_blocking", range(1, 4)),
    ),
    bug(
        "gives up at the first refusal",
        "I1 I2 I14 I16 I15 I20 I27",
        Edit(retries, "commit", "except (WriteRefused, TokenReused):", "except TokenReused:"),
        scenarios=("send and go", "double texting: enqueue"),
        aims=aims(Fault.CONFLICT, "append.transact", range(1, 3)),
    ),
    bug(
        "commits without knowing who has subscribed meanwhile",
        "I8",
        Edit(head, "as_read", ", subscribers_as_read(head))", ")"),
        scenarios=LISTENS_LATE,
        aims=aims(Fault.FROZEN_BEFORE, "append.transact", range(1, 6), 1.0),
    ),
    bug(
        "forgets the subscribers of the head that it reads again",
        "I8",
        Edit(
            progress,
            "still_mine",
            "return replace(head, push_epoch=now.push_epoch, push_events=now.push_events)",
            "return replace(head, push_epoch=now.push_epoch)",
        ),
        scenarios=LISTENS_LATE,
        aims=(*LOST_WAKE_UPS, *aims(Fault.CRASH_BEFORE, "queue.send", range(1, 5))),
    ),
    bug(
        "believes the index about what is due",
        "I16",
        Edit(timers, "claimed_timer", "if due_at is None or due_at > times.now:", "if due_at is None:"),
        scenarios=("past fifteen minutes",),
        aims=aims(Fault.STALE, "expired_timers.query_index", range(1, 5), 2.0),
    ),
    bug(
        "stores an event whose blob is not there",
        "I26 I4",
        Edit(LogRows, "payload", "await self._blobs.put(blob, packed)", "pass"),
        scenarios=("large payloads",),
    ),
    bug(
        "reads the first page of a log alone",
        "I4 I5 I6 I6B I6C I17 I20 I1 I16",
        Edit(Reads, "pages", "if page.next is None:", "if True:"),
        scenarios=("many tasks", "send and wait", "readers elsewhere"),
    ),
    bug(
        "reads what has expired",
        "I32 I16",
        Edit(Reads, "lives", "return TTL_ATTRIBUTE not in item or", "return True or"),
        scenarios=FORGOTTEN,
    ),
    bug(
        "lets a task expire although a message has come",
        "I20 I4",
        Edit(follow_ups, "new_expiry", "return times.expires if", "return None if"),
        scenarios=FORGOTTEN,
    ),
    bug(
        "keeps a task longer, and not its first events",
        "I20 I4",
        Edit(
            TaskStore,
            "_prolong",
            "writes: list[Write] = [await self._rows.snapshot_row(head.key, head.generation, task, times)]",
            "writes: list[Write] = []",
        ),
        scenarios=FORGOTTEN,
    ),
    bug(
        "answers a follow-up twice whose own record has expired",
        "I2",
        Edit(MessageAdmission, "_follow_up", "if repeats.holds_message(task, message):", "if False:"),
        scenarios=FORGOTTEN,
    ),
    bug(
        "does not know an idempotency key again",
        "I24",
        Edit(repeats, "message_keys_of", "if idempotency_key else []", "if False else []"),
        scenarios=("an idempotency key",),
    ),
    bug(
        "stores the snapshot of the task before its turn's last event",
        "I4 I17",
        Edit(
            TurnExecution,
            "_snapshot",
            "[*self._broadcast.log, Numbered(self._head.generation + 1, event)]",
            "self._broadcast.log",
        ),
        scenarios=("question and answer", "many tasks"),
    ),
    bug(
        "lets a resumed cursor follow a snapshot twice",
        "I4 I5 I6 I17",
        Edit(
            TaskLog,
            "_log_of",
            "for generation in range(base + 1, head.generation + 1):",
            "for generation in range(base, head.generation + 1):",
        ),
        scenarios=("question and answer", "many tasks"),
    ),
    # ── Bugs missed before the review of November ─────────────────────────────────────────────────────────────────────
    bug(
        "ends the heartbeat at the first error of the store",
        "I27",
        Edit(LeaseRenewal, "once", "return True", "return False"),
        scenarios=("send and go",),
        aims=aims(Fault.THROTTLED, "holds.get_blocking", range(1, 5)),
    ),
    bug(
        "numbers the second page of a batch like the first",
        "I6 I6C I6D I6E",
        Edit(DeltaWriter, "_write", "first += len(page)", "pass"),
        scenarios=("readers elsewhere", "stream"),
    ),
    bug(
        "counts the failures of a reader for ever",
        "I28",
        Edit(subscription, "tail", "failures, log = 0, read.log", "log = read.log"),
        scenarios=("past fifteen minutes",),
        together=tuple(Aim(Fault.THROTTLED, "log.query", 60 * number) for number in range(1, 14)),
    ),
    bug(
        "takes a task that is being made for one that has ended",
        "I22",
        Edit(open_tasks, "has_ended", "now - task.since > BEING_CREATED", "True"),
        scenarios=("no more than two tasks",),
    ),
    bug(
        "begins the next turn seconds before the process ends",
        "I16",
        Edit(TaskRunner, "_has_time", "> 2 * DRAIN_SECONDS", "> 0"),
        scenarios=("double texting: enqueue", "cancel what waits"),
    ),
    bug(
        "begins the next turn with the time that it had before a freeze",
        "I16",
        Edit(TurnStore, "finish", "and not has_time()", "and False"),
        scenarios=("follow-up at the end",),
        together=(Aim(Fault.TIME_IS_SHORT, "invoke", 2, 70.0), Aim(Fault.FROZEN_AFTER, "finish.get", 5, 29.0)),
    ),
    bug(
        "takes an old read for a fresh one when the clock is set back",
        "I31",
        Edit(SharedRead, "serves", "0 <= now - self.at <= FRESH_SECONDS", "now - self.at <= FRESH_SECONDS"),
        scenarios=("readers elsewhere",),
        aims=aims(Fault.SKEWED, "log.query", range(3, 9), -60.0),
    ),
    bug(
        "lets a reader miss the batch that its cursor points into",
        "I6 I6C I6E",
        Edit(subscription, "next_read", "return after if reached else Cursor(after.generation)", "return after"),
        scenarios=("leaves in the middle",),
    ),
    bug(
        "lets a text go on behind a gap",
        "I6D",
        Edit(subscription, "_add_chunks", "(number > after.n and not chunk.append)", "number > after.n"),
        Edit(DeltaWriter, "_write", "return", "pass"),
        scenarios=("readers elsewhere",),
        aims=aims(Fault.THROTTLED, "append_deltas.write", range(1, 6)),
    ),
    bug(
        "forgets to look whether older tasks can be read",
        "I15",
        Edit(Conversations, "_load", "except StoreCorrupt", "except KeyError"),
        scenarios=("large payloads",),
        aims=aims(Fault.BLOB_GONE, "blob.get", range(1, 8)),
    ),
    bug(
        "recalls what was said in other contexts",
        "I25",
        Edit(
            Conversations,
            "history",
            "TaskFilter(context.owner, context.agent, context.context_id)",
            "TaskFilter(context.owner, context.agent)",
        ),
        scenarios=("many tasks",),
    ),
    bug(
        "never finds that the tasks of a caller have ended",
        "I22",
        Edit(OpenTasks, "admit", "if ended:", "if False:"),
        scenarios=("no more than two tasks",),
    ),
    bug(
        "leaves a task out between two pages of a list",
        "I21",
        Edit(TaskLister, "_page", "limit=room + 1", "limit=room"),
        scenarios=("many tasks",),
    ),
]
