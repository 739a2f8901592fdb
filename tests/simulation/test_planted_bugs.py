"""The simulation can see: each of these mistakes, put into the deployed code, is found, and called what it is."""

from collections.abc import Iterator

import pytest

from aion_core.push import schedule, tries
from aion_core.push.delivery import PushDelivery
from aion_core.push.patience import Patience
from aion_core.push.tries import Tries
from aion_core.stores import task_store
from aion_core.stores.items import Reads
from aion_core.stores.push_configs import TablePushConfigs
from aion_core.stores.retries import FencedWrites
from aion_core.stores.task_log import TaskLog
from aion_core.stores.task_store import TableTaskStore
from aion_core.tasks import admission, contexts, deliveries, heads, lifecycle, subscription, timers, transitions
from aion_core.tasks.deltas import DeltaWriter
from aion_core.tasks.heartbeat import LeaseRenewal
from aion_core.tasks.history import ContextHistory
from aion_core.tasks.listing import TaskLister
from aion_core.tasks.notifications import CommitNotifier
from aion_core.tasks.quotas import OpenTasks
from aion_core.tasks.runner import TaskRunner, Worker
from aion_core.tasks.service import Intake, TaskService
from aion_core.tasks.shared_reads import SharedReads
from aion_core.tasks.sweep import Sweep
from aion_core.tasks.turn import TurnUnderWay
from tests.simulation import run
from tests.simulation.faults import Aim, Fault
from tests.simulation.planting import Bug, Edit, plant
from tests.simulation.run import Outcome, play
from tests.simulation.scenarios import SCENARIOS

MOST_SEEDS = 400
"""A bug is found within so many schedules of the scenarios where it shows; most are by the first few."""


TOLD, LISTENS_LATE, FORGOTTEN = ("told of a task",), ("begins to listen late",), ("kept for an hour",)
READERS = ("readers elsewhere", "leaves in the middle", "stream")
LOST_BELLS = tuple(Aim(Fault.LOST, "bell.ring", number) for number in range(1, 6))


def aims(fault: Fault, kind: str, numbers: range, amount: float = 0.0) -> tuple[Aim, ...]:
    """Return the fault at each of these side effects of a kind."""
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


BUGS = [
    bug(
        "speaks before it records",
        "I6",
        Edit(
            TurnUnderWay,
            "_record",
            "self._head = await self._store.append(",
            "self._run.record(Numbered(self._head.generation + 1, event)); self._head = await self._store.append(",
        ),
        scenarios=("stream",),
    ),
    bug(
        "does not look at the fence when it records",
        "I10 I11 I5 I4",
        Edit(heads, "as_read", "if fence else ()", "if False else ()"),
        scenarios=("send and go", "stream", "double texting: enqueue"),
    ),
    bug(
        "lets a checkpoint through whoever writes it",
        "I10 I11",
        Edit(FencedWrites, "__init__", "if fence else []", "if False else []"),
    ),
    bug(
        "does not give the lease back",
        "I14 I16",
        Edit(contexts, "released", '(*NOBODY_HOLDS, "due_at")', "()"),
        scenarios=("send and go", "send and wait"),
    ),
    bug(
        "forgets the bell of a turn that waits",
        "I16",
        Edit(Intake, "_see_to", "await wake(self._bells, context)", "pass"),
        scenarios=("send and go",),
    ),
    bug(
        "forgets the bell of what a cancel leaves behind",
        "I16",
        Edit(Intake, "cancel", "if ended.waiting:", "if False:"),
        scenarios=("cancel what waits",),
    ),
    bug(
        "forgets the bell of a turn that is handed on",
        "I16 I16B",
        Edit(TaskRunner, "_put_down", "await wake(self._bells, turn.lease.context, delay=delay)", "pass"),
        scenarios=("past fifteen minutes",),
    ),
    bug(
        "counts each try twice",
        "I15",
        Edit(transitions, "_beginning", "tries=turn.tries + 1", "tries=turn.tries + 2"),
    ),
    bug(
        "counts no try",
        "I16 I14 I1",
        Edit(transitions, "_beginning", "tries=turn.tries + 1", "tries=0"),
        scenarios=("an agent that hangs",),
    ),
    bug(
        "goes on counting the tries of a turn that gets on",
        "I15",
        Edit(transitions, "suspended", "tries=0, hops", "hops"),
        scenarios=("past fifteen minutes",),
    ),
    bug(
        "knows a messageId in every context of its owner",
        "I13 I1",
        Edit(
            task_store,
            "_message_keys",
            "keys.message_key(context, message_id)",
            'keys.message_key(ContextKey(context.owner, context.agent, "any"), message_id)',
        ),
        scenarios=("two contexts, two owners",),
    ),
    bug(
        "does not know a messageId again",
        "I2",
        Edit(TableTaskStore, "_put_message", "**times.ttl}, only_if)", "**times.ttl})"),
        scenarios=("one messageId, many sends",),
    ),
    bug(
        "forgets that the retry of a message is its own",
        "I2 I10 I14 I16 I16B I27 I1",
        Edit(
            TableTaskStore,
            "_created_before",
            "return admission.created_before(new, record, head, holder)",
            "return Waiting(head, record.held_until())",
        ),
        scenarios=("send and wait", "stream"),
        aims=aims(Fault.ANSWER_LOST, "create.transact", range(1, 2)),
    ),
    bug(
        "cancels without raising the fence",
        "I10 I12",
        Edit(transitions, "canceled", "record.fence + 1 if takes else record.fence", "record.fence"),
        scenarios=("cancel",),
    ),
    bug(
        "writes an event over another",
        "I4 I5 I10 I12 I17",
        Edit(heads, "as_read", 'Equals("generation", head.generation)', 'Exists("generation")'),
        scenarios=("cancel", "follow-up at the end"),
    ),
    bug(
        "ends a task for which a message waits",
        "I1 I4 I14",
        Edit(transitions, "next_turn", "if ending.after.state in lifecycle.TERMINAL and waits:", "if False:"),
        scenarios=("follow-up at the end", "double texting: enqueue"),
    ),
    bug(
        "gives the subscriber a snapshot and its last event once more",
        "I6",
        Edit(
            TaskService, "subscribe", "after = Cursor(log.head.generation)", "after = Cursor(log.head.generation - 1)"
        ),
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
            if heard:
                yield heard
            if log.head.state in lifecycle.RESTING:
                return
            """,
            """
            if log.head.state in lifecycle.RESTING:
                return
            if heard:
                yield heard
            """,
        ),
        scenarios=("readers elsewhere", "leaves in the middle"),
    ),
    bug(
        "lets a reader hear the chunks of a fence that is over",
        "I6 I6D I6C",
        Edit(subscription, "merge", "if of_this_event and of_this_event[0].fence < batch.fence:", "if False:"),
        Edit(subscription, "merge", "if not of_this_event or of_this_event[0].fence == batch.fence:", "if True:"),
        Edit(subscription, "_hear", "elif batch.fence < after.fence:", "elif False:"),
        scenarios=READERS,
    ),
    bug(
        "writes the chunks after the event that they precede",
        "I6C",
        Edit(
            TurnUnderWay,
            "_record",
            """
            await self._deltas.flush()
            self._head = await self._store.append(self.lease, self._head, event, key=key)
            """,
            """
            self._head = await self._store.append(self.lease, self._head, event, key=key)
            await self._deltas.flush()
            """,
        ),
        scenarios=("readers elsewhere",),
        aims=tuple(Aim(Fault.SLOW, "append_deltas.write", number, 2.5) for number in range(1, 6)),
    ),
    bug(
        "forgets the cursor when a turn is taken over",
        "I6",
        Edit(TaskService, "stream", "after = accepted.run.cursor()", "after = Cursor()"),
        scenarios=("stream", "past fifteen minutes"),
    ),
    bug(
        "takes the claim for the bell",
        "I16",
        Edit(Sweep, "once", "if await self._store.claim(overdue):", "if True:"),
    ),
    bug(
        "forgets what it has claimed",
        "I1 I14 I16",
        Edit(
            timers,
            "claimed",
            'return Change({"due_at": times.claimed_until}, only_if=as_read)',
            "return Change(remove=NO_TIMER, only_if=as_read)",
        ),
    ),
    bug(
        "sets no timer for a turn that waits",
        "I1 I14 I16",
        Edit(contexts, "queued", "if timer else {}", "if False else {}"),
    ),
    bug(
        "begins a turn whose holder lives",
        "I10",
        Edit(contexts, "turn_to_begin", "if record.until > now:", "if False:"),
    ),
    bug(
        "begins a turn behind a question",
        "I10 I1",
        Edit(contexts, "turn_to_begin", "None if record.interrupted is not None else", "None if False else"),
        Edit(contexts, "acquired_next", "NOTHING_RUNS, NO_INPUT_REQUIRED,", "NOTHING_RUNS,"),
    ),
    bug(
        "does not note that a task requires input",
        "I10 I1 I14",
        Edit(contexts, "released_for_input", '{"interrupted": lease.turn.task_id}', "{}"),
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
        Edit(Worker, "answer", "if begun.fence == bell.fence or left < self._runner.lease_seconds / 2:", "if False:"),
        scenarios=("send and go", "cancel", "double texting: enqueue"),
    ),
    bug(
        "says again what a step has said before it died",
        "I5",
        Edit(TurnUnderWay, "emit", "if emission.key and emission.key in self._keys:", "if False:"),
    ),
    bug(
        "tells what its own agent said of its failure",
        "I15",
        Edit(TaskRunner, "_reason", "if self._reveal_errors", "if True"),
        scenarios=("agents that misbehave", "double texting: enqueue"),
    ),
    bug(
        "lets a task go on after its end",
        "I4 I3",
        Edit(lifecycle, "advance", "if head.state in TERMINAL:", "if False:"),
        Edit(lifecycle, "advance", "if head.generation and not may_follow", "if False and not may_follow"),
        Edit(Intake, "cancel", "if head.state in lifecycle.TERMINAL:", "if False:"),
        scenarios=("cancel",),
    ),
    bug(
        "loses a batch of chunks when it writes the next",
        "I6C I6E",
        Edit(
            DeltaWriter,
            "_write_pending",
            "for page in _pages(self._pending):",
            "for page in _pages(self._pending[1:]):",
        ),
        scenarios=("readers elsewhere",),
    ),
    bug(
        "sets no timer for an event that a subscriber wants",
        "I8",
        Edit(heads, "new_event", "notifies=listened_to(head, event)", "notifies=False"),
        scenarios=TOLD,
        aims=LOST_BELLS,
    ),
    bug(
        "forgets the bell of a notification",
        "I16 I16C",
        Edit(CommitNotifier, "_enqueue_beside", "if head.key not in self._enqueuing:", "if False:"),
        scenarios=TOLD,
    ),
    bug(
        "passes an event before it is posted",
        "I8",
        Edit(
            PushDelivery,
            "_post_all",
            "outcome = await self._tries.make(claim, entry, may_be_spared=not is_last)",
            "claim = await self._configs.advance(claim, cursor=entry.generation, until=self._claimed_until()); "
            "outcome = await self._tries.make(claim, entry, may_be_spared=not is_last)",
        ),
        scenarios=TOLD,
        aims=tuple(Aim(Fault.CRASH_BEFORE, "webhook.post", number) for number in range(1, 4)),
    ),
    bug(
        "never forgets an event that everybody has passed",
        "I14 I16",
        Edit(PushDelivery, "_settle", "await self._configs.clear(task, generation)", "pass"),
        scenarios=TOLD,
    ),
    bug(
        "posts for a config that was deleted",
        "I8",
        Edit(deliveries, "change", 'Equals("revision", before.revision)', "None"),
        scenarios=LISTENS_LATE,
        aims=aims(Fault.SLOW, "webhook.post", range(1, 4), 6.0),
    ),
    bug(
        "tells who listens late of what was before",
        "I8",
        Edit(TablePushConfigs, "put", "after=head.generation", "after=0"),
        scenarios=LISTENS_LATE,
    ),
    bug(
        "does not look whether another has the claim",
        "I8",
        Edit(deliveries, "change", 'Equals("revision", before.revision)', "None"),
        Edit(schedule, "is_claimed", "delivery.claimed_until > now", "False"),
        scenarios=(*TOLD, *LISTENS_LATE),
    ),
    bug(
        "posts the newest first",
        "I8",
        Edit(PushDelivery, "_post_all", "for entry in log.events:", "for entry in reversed(log.events):"),
        scenarios=TOLD,
    ),
    bug(
        "gives up after the first try",
        "I8",
        Edit(PushDelivery, "_fail", "if wait is None:", "if True:"),
        scenarios=TOLD,
    ),
    bug(
        "never gives up",
        "I14 I16",
        Edit(schedule, "delay", "if tries >= len(retry_seconds):", "tries %= len(retry_seconds)\n    if False:"),
        scenarios=TOLD,
    ),
    bug(
        "gives each try an id of its own",
        "I9",
        Edit(
            tries,
            "notification_id",
            "{task.task_id}_{generation}",
            "{__import__('random').random()}_{task.task_id}_{generation}",
        ),
        scenarios=TOLD,
    ),
    bug(
        "gives up what it has spared",
        "I8",
        Edit(Tries, "make", "self._clock.now()) and may_be_spared:", "self._clock.now()):"),
        Edit(Patience, "note", "if waited.strikes >= STRIKES:", "if True:"),
        scenarios=TOLD,
    ),
    bug(
        "forgets who begins to listen as it is found that nobody does",
        "I8",
        Edit(heads, "without_subscribers", 'Equals("push_epoch", head.push_epoch)', 'Exists("push_epoch")'),
        Edit(PushDelivery, "answer", "if not deliveries and head.push_events is not None:", "if True:"),
        scenarios=LISTENS_LATE,
    ),
    bug(
        "goes on with who has said that it is gone",
        "I8 I14 I16",
        Edit(deliveries, "disabled", "disabled=True", "disabled=False"),
        scenarios=TOLD,
    ),
    bug(
        "sweeps no notifications",
        "I8 I14 I16",
        Edit(
            Sweep, "once", "((self._contexts, at_once), (self._pushes, pushes_at_once))", "((self._contexts, at_once),)"
        ),
        scenarios=TOLD,
        aims=LOST_BELLS,
    ),
    # ── The store over the table ──────────────────────────────────────────────────────────────────────────────────────
    bug(
        "does not look for its own event after a lost answer",
        "I27",
        Edit(TableTaskStore, "append", "if await self._log.holds(row.task, row.generation, row.token):", "if False:"),
        scenarios=("send and go",),
        aims=aims(Fault.ANSWER_LOST, "append.transact", range(1, 4)),
    ),
    bug(
        "takes a conflict for the loss of the lease",
        "I27",
        Edit(TableTaskStore, "renew", "return refused.is_conflict", "return False"),
        scenarios=("send and go",),
        aims=aims(Fault.CONFLICT, "renew.write_blocking", range(1, 4)),
    ),
    bug(
        "gives up at the first refusal",
        "I1 I2 I14 I16 I15 I20 I27",
        Edit(task_store, "commit", "except (WriteRefused, TokenReused):", "except TokenReused:"),
        scenarios=("send and go", "double texting: enqueue"),
        aims=aims(Fault.CONFLICT, "append.transact", range(1, 3)),
    ),
    bug(
        "commits without knowing who has subscribed meanwhile",
        "I8",
        Edit(heads, "as_read", ", subscribers_as_read(head))", ")"),
        scenarios=LISTENS_LATE,
        aims=aims(Fault.FROZEN_BEFORE, "append.transact", range(1, 6), 1.0),
    ),
    bug(
        "forgets the subscribers of the head that it reads again",
        "I8",
        Edit(
            transitions,
            "still_mine",
            "return replace(head, push_epoch=now.push_epoch, push_events=now.push_events)",
            "return replace(head, push_epoch=now.push_epoch)",
        ),
        scenarios=LISTENS_LATE,
        aims=(*LOST_BELLS, *aims(Fault.CRASH_BEFORE, "bell.ring", range(1, 5))),
    ),
    bug(
        "believes the index about what is due",
        "I16",
        Edit(timers, "claimed", "if due_at is None or due_at > times.now:", "if due_at is None:"),
        scenarios=("send and go", "cancel what waits", "past fifteen minutes"),
        aims=aims(Fault.STALE, "overdue.query_index", range(1, 10), 1.0),
    ),
    bug(
        "stores an event whose blob is not there",
        "I26 I4",
        Edit(TaskLog, "_payload", "await self._blobs.put(blob, packed)", "pass"),
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
        "I32",
        Edit(Reads, "lives", "return ENDS not in item or", "return True or"),
        scenarios=FORGOTTEN,
    ),
    bug(
        "lets a task expire although a message has come",
        "I20 I4",
        Edit(admission, "new_expiry", "return times.expires if", "return None if"),
        scenarios=FORGOTTEN,
    ),
    bug(
        "keeps a task longer, and not its first events",
        "I20 I4",
        Edit(
            TableTaskStore,
            "_kept_longer",
            "writes: list[Write] = [await self._log.snapshot_row(head.key, head.generation, task, times)]",
            "writes: list[Write] = []",
        ),
        scenarios=FORGOTTEN,
    ),
    bug(
        "answers a follow-up twice whose own record has expired (T3)",
        "I2",
        Edit(Intake, "_follow_up", "if admission.is_in(task, message):", "if False:"),
        scenarios=FORGOTTEN,
    ),
    bug(
        "does not know an idempotency key again",
        "I24",
        Edit(task_store, "_message_keys", "if idempotency_key else []", "if False else []"),
        scenarios=("an idempotency key",),
    ),
    bug(
        "stores the snapshot of the task before its turn's last event",
        "I4 I17",
        Edit(
            TurnUnderWay, "_snapshot", "[*self._run.log, Numbered(self._head.generation + 1, event)]", "self._run.log"
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
    # ── What the review of November found to be missed ────────────────────────────────────────────────────────────────
    bug(
        "ends the heartbeat at the first error of the store (T1)",
        "I27",
        Edit(LeaseRenewal, "once", "return True", "return False"),
        scenarios=("send and go",),
        aims=aims(Fault.THROTTLED, "holds.get_blocking", range(1, 5)),
    ),
    bug(
        "numbers the second page of a batch like the first (T2)",
        "I6 I6C I6D I6E",
        Edit(DeltaWriter, "_write_pending", "first += len(page)", "pass"),
        scenarios=("readers elsewhere", "stream"),
    ),
    bug(
        "counts the failures of a reader for ever (T4)",
        "I28",
        Edit(subscription, "tail", "failures, log = 0, read.log", "log = read.log"),
        scenarios=("past fifteen minutes",),
        together=tuple(Aim(Fault.THROTTLED, "log.query", 60 * number) for number in range(1, 14)),
    ),
    bug(
        "takes a task that is being made for one that has ended (T5)",
        "I22",
        Edit(OpenTasks, "_is_over", "return self._clock.now() - task.since > BEING_MADE", "return True"),
        scenarios=("no more than two tasks",),
    ),
    bug(
        "begins the next turn seconds before the process ends (T6)",
        "I16",
        Edit(TaskRunner, "_has_time", "> 2 * DRAIN_SECONDS", "> 0"),
        scenarios=("double texting: enqueue", "cancel what waits"),
    ),
    bug(
        "lets a reader wait for a message that does not come (T10)",
        "I30",
        Edit(TurnUnderWay, "end", "self._run.ends_as_message = False", "pass"),
        scenarios=("replies: auto",),
    ),
    bug(
        "takes an old read for a fresh one when the clock is set back (T11)",
        "I31",
        Edit(SharedReads, "after", "not 0 <= now - at <= FRESH_SECONDS", "not now - at <= FRESH_SECONDS"),
        scenarios=("readers elsewhere",),
        aims=aims(Fault.SKEWED, "log.query", range(3, 9), -600.0),
    ),
    bug(
        "leaves a turn before its notifications are enqueued (T12)",
        "I16C",
        Edit(TableTaskStore, "pause", "await self._notifier.settle(task_of(lease.context, lease.turn))", "pass"),
        scenarios=TOLD,
        aims=aims(Fault.TIME_IS_SHORT, "invoke", range(1, 4), 45.0),
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
        Edit(subscription, "_hear", "(number > after.n and not chunk.append)", "number > after.n"),
        Edit(DeltaWriter, "_write_pending", "return", "pass"),
        scenarios=("readers elsewhere",),
        aims=aims(Fault.THROTTLED, "append_deltas.write", range(1, 6)),
    ),
    bug(
        "forgets to look whether older tasks can be read",
        "I15",
        Edit(ContextHistory, "_said", "except StoreCorrupt", "except KeyError"),
        scenarios=("large payloads",),
        aims=aims(Fault.BLOB_GONE, "blob.get", range(1, 8)),
    ),
    bug(
        "recalls what was said in other contexts",
        "I25",
        Edit(
            ContextHistory,
            "read",
            "TaskFilter(context.owner, context.agent, context.context_id)",
            "TaskFilter(context.owner, context.agent)",
        ),
        scenarios=("many tasks",),
    ),
    bug(
        "never finds that the tasks of a caller have ended",
        "I22",
        Edit(OpenTasks, "admit", "if over:", "if False:"),
        scenarios=("no more than two tasks",),
    ),
    bug(
        "leaves a task out between two pages of a list",
        "I21",
        Edit(TaskLister, "_page", "limit=room + 1", "limit=room"),
        scenarios=("many tasks",),
    ),
]


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.what)
def test_a_planted_bug_is_found(planted: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    for edit in planted.edits:
        plant(edit, monkeypatch)
    tried = []
    for outcome in schedules(planted):
        tried.append(outcome)
        named = {violation.split(":")[0] for violation in outcome.violations}
        if named & planted.seen_by:
            return
    others = [str(outcome) for outcome in tried if outcome.violations]
    pytest.fail(f"{len(tried)} schedules did not show it; what they showed: {others[:3]}")


def schedules(planted: Bug) -> Iterator[Outcome]:
    """Play what could show the bug: first without a fault, then with some."""
    scenarios = planted.scenarios or tuple(name for name, scenario in SCENARIOS.items() if scenario.main)
    for name in scenarios:
        for seed in range(4):
            yield play(SCENARIOS[name], seed)
    for aim in planted.aims:
        for seed in range(8):
            yield play(SCENARIOS[scenarios[0]], seed, [aim])
    if planted.together:
        yield play(SCENARIOS[scenarios[0]], 1, planted.together)
    for seed in range(MOST_SEEDS):
        yield run.schedule(seed, among=scenarios)
