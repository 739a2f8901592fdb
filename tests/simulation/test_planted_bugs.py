"""The simulation can see: each of these mistakes, put into the engine, is found, and called what it is."""

from collections.abc import Iterator

import pytest
from aion_core.memory.records import Listeners

from aion_core.memory import task_store as memory
from aion_core.push import schedule, tries
from aion_core.push.delivery import PushDelivery
from aion_core.push.patience import Patience
from aion_core.push.tries import Tries
from aion_core.tasks import contexts, deliveries, lifecycle, subscription
from aion_core.tasks.deltas import DeltaWriter
from aion_core.tasks.intake import Intake
from aion_core.tasks.notifications import CommitNotifier
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.service import TaskService
from aion_core.tasks.sweep import Sweep
from aion_core.tasks.turn import TurnUnderWay
from aion_core.tasks.worker import Worker
from tests.simulation import run
from tests.simulation.faults import Aim, Fault
from tests.simulation.planting import Bug, Edit, plant
from tests.simulation.run import Outcome, play
from tests.simulation.scenarios import SCENARIOS
from tests.support.stores import MemoryTaskStore

MOST_SEEDS = 400
"""Within so many schedules of the scenarios where it shows a bug is found; most are by the first few."""


TOLD, LISTENS_LATE = ("told of a task",), ("begins to listen late",)
LOST_BELLS = tuple(Aim(Fault.LOST, "bell.ring", number) for number in range(1, 6))


def bug(what: str, seen_by: str, *edits: Edit, scenarios: tuple[str, ...] = (), aims: tuple[Aim, ...] = ()) -> Bug:
    return Bug(what, edits, frozenset(seen_by.split()), scenarios, aims)


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
        Edit(
            MemoryTaskStore,
            "_check",
            "task.head != replace(head, fence=lease.fence)",
            "task.head.generation != head.generation",
        ),
        scenarios=("send and go", "stream", "double texting: enqueue"),
    ),
    bug(
        "lets a checkpoint through whoever writes it",
        "I10 I11",
        Edit(MemoryTaskStore, "fenced", "self._contexts[context].fence != fence", "False"),
    ),
    bug(
        "does not give the lease back",
        "I14 I16",
        Edit(
            MemoryTaskStore,
            "finish",
            'record, running=None, holder="", until=0, interrupted=',
            "record, interrupted=",
        ),
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
        Edit(MemoryTaskStore, "_begin", "tries=turn.tries + 1", "tries=turn.tries + 2"),
    ),
    bug(
        "counts no try",
        "I16 I14 I1",
        Edit(MemoryTaskStore, "_begin", "tries=turn.tries + 1", "tries=0"),
        scenarios=("an agent that hangs",),
    ),
    bug(
        "goes on counting the tries of a turn that gets on",
        "I15",
        Edit(MemoryTaskStore, "pause", "tries=0, hops", "hops"),
        scenarios=("past fifteen minutes",),
    ),
    bug(
        "knows a messageId in every context of its owner",
        "I13 I1",
        Edit(
            memory,
            "_places",
            "[(context, message_id)]",
            '[(replace(context, context_id=""), message_id)]',
        ),
        scenarios=("two contexts, two owners",),
    ),
    bug(
        "does not know a messageId again",
        "I2",
        Edit(MemoryTaskStore, "create", "if place in self._messages:", "if False:"),
        scenarios=("one messageId, many sends",),
    ),
    bug(
        "does not know a follow-up's messageId again",
        "I2",
        Edit(MemoryTaskStore, "follow_up", "if place in self._messages:", "if False:"),
        scenarios=("question and answer", "double texting: enqueue", "follow-up at the end"),
    ),
    bug(
        "cancels without raising the fence",
        "I10 I12",
        Edit(MemoryTaskStore, "cancel", "record, fence=record.fence + 1, running", "record, running"),
        scenarios=("cancel",),
    ),
    bug(
        "cancels while the event before is being written",
        "I4 I5 I10 I12 I17",
        Edit(MemoryTaskStore, "cancel", "if task.head != head:", "if False:"),
        scenarios=("cancel",),
    ),
    bug(
        "ends a task for which a message waits",
        "I1 I4 I14",
        Edit(MemoryTaskStore, "finish", "raise MoreAsked", "MoreAsked"),
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
        "I6",
        Edit(subscription, "merge", "if of_this_event and of_this_event[0].fence < batch.fence:", "if False:"),
        Edit(subscription, "merge", "if not of_this_event or of_this_event[0].fence == batch.fence:", "if True:"),
        Edit(subscription, "_hear", "elif batch.fence < after.fence:", "elif False:"),
        scenarios=("readers elsewhere", "leaves in the middle", "stream"),
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
        aims=tuple(Aim(Fault.SLOW, "store.append_deltas", number, 2.5) for number in range(1, 6)),
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
            MemoryTaskStore,
            "claim",
            "self._due[overdue.context] = self._now() + self._lease * CLAIM_TERMS",
            "del self._due[overdue.context]",
        ),
    ),
    bug(
        "gives no due time to what waits",
        "I1 I14 I16",
        Edit(MemoryTaskStore, "_wait", "self._due.setdefault(key, self._soon())", "pass"),
    ),
    bug(
        "begins a turn whose holder lives",
        "I10",
        Edit(contexts, "turn_to_begin", "if record.until > now:", "if False:"),
    ),
    bug(
        "begins a turn behind a question",
        "I10 I1",
        Edit(contexts, "turn_to_begin", "if record.interrupted is not None:", "if False:"),
    ),
    bug(
        "does not remember that a task asks",
        "I10 I1 I14",
        Edit(MemoryTaskStore, "finish", "head.key.task_id if asks else", "None if asks else"),
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
        "I6C",
        Edit(DeltaWriter, "_write_pending", "for page in _pages(chunks):", "for page in _pages(chunks[1:]):"),
        scenarios=("readers elsewhere",),
    ),
    bug(
        "does not let an event be due to who listens",
        "I8",
        Edit(MemoryTaskStore, "_let_be_due", "if heads.listened_to(self._tasks[key].head, event):", "if False:"),
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
        Edit(
            Listeners,
            "stands",
            "return now is not None and now.revision == delivery.revision",
            "return now is None or now.revision == delivery.revision",
        ),
        scenarios=LISTENS_LATE,
        aims=tuple(Aim(Fault.SLOW, "webhook.post", number, 6.0) for number in range(1, 4)),
    ),
    bug(
        "tells who listens late of what was before",
        "I8",
        Edit(MemoryTaskStore, "listen", "after=self._tasks[key].head.generation", "after=0"),
        scenarios=LISTENS_LATE,
    ),
    bug(
        "does not look whether another has the claim",
        "I8",
        Edit(
            Listeners,
            "stands",
            "return now is not None and now.revision == delivery.revision",
            "return now is not None",
        ),
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
        Edit(MemoryTaskStore, "desert", "task.head.push_epoch == head.push_epoch", "True"),
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
        Edit(Sweep, "_ring_for", "if await configs.claim_overdue(overdue):", "if False:"),
        scenarios=TOLD,
        aims=LOST_BELLS,
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
    for seed in range(MOST_SEEDS):
        yield run.schedule(seed, among=scenarios)
