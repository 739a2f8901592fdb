"""Faults of a side effect, and plans of faults drawn from a seed.

The kind of a request to the table consists of the store's operation and the table's method: `append.transact`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from random import Random

TABLE_READS = ("get", "query", "query_index", "scan", "get_blocking")
TABLE_WRITES = ("transact", "write", "write_blocking")
TRANSACTIONS = ("transact",)
INDEX = ("query_index",)
BLOB_READS, BLOB_WRITES = ("blob.get",), ("blob.put", "blob.delete")
TO_CLIENT = ("sse.write", "answer.write")
REMOTE_READS, REMOTE_WRITES = ("remote.read",), ("remote.send", "remote.cancel")
QUEUE = ("queue.send", "queue.receive", "queue.delete", "queue.count")
NOT_IN_TRANSACTIONS = ("append_deltas.write", "list.write", "count_task.write", "forget_tasks.write")
"""Writes of items that no transaction writes: they cannot conflict."""
MOMENTS = ("agent.step", "agent.checked", "agent.within")
"""Moments of an agent's code without an effect: between two steps, between the check of the lease and the step's first
statement, and between two statements of a step."""
WITHOUT_TABLE = (
    *BLOB_READS, *BLOB_WRITES, *REMOTE_READS, *REMOTE_WRITES, *QUEUE, *TO_CLIENT, *MOMENTS, "agent.effect", "webhook.post", "invoke"
)  # fmt: skip
"""Kinds of side effect other than requests to the table; "invoke" is the start of an invocation."""


class Fault(StrEnum):
    """Faults of processes, messages, requests, clients and clocks."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CRASH_IN_FLIGHT = "crash in flight"  # The process dies, and its request still arrives.
    KILLED_SOON = "killed soon"  # The process dies a while after the start of its invocation, without notice.
    TIME_IS_SHORT = "time is short"  # The invocation ends soon, and the runner knows its remaining time.
    FROZEN_BEFORE = "frozen before"
    FROZEN_AFTER = "frozen after"
    OVERTAKEN = "overtaken"  # The process is frozen until another process has the lease, and a little longer.
    DOUBLED = "doubled"  # A message arrives twice, or the AWS client repeats a successful write.
    LATE = "late"
    SEEN_AGAIN = "seen again"  # SQS delivers the message again while its function still runs.
    POISONED = "poisoned"  # The message names a context that is not stored.
    HANDLER_FAILS = "handler fails"
    REDRIVEN = "redriven"
    PURGED = "purged"
    LOST = "lost"  # The message disappears.
    THROTTLED = "throttled"  # The request is refused and has no effect.
    THROTTLED_REASON = "one throttled"  # The transaction is refused, with throttling as the reason for one write.
    BURST = "burst"
    CONFLICT = "conflict"  # The transaction is refused, with TransactionConflict as the reason for one write.
    ANSWER_LOST = "answer lost"
    ARRIVES_LATE = "arrives late"  # The sender gets no response; the request arrives some time later.
    STALE = "stale"  # The index returns old entries.
    HALF_MADE = "half made"  # For a moment, queries return only a part of the transaction.
    BLOB_GONE = "blob gone"  # The blob is missing, although its item exists.
    SLOW = "slow"  # The request takes several seconds.
    CLIENT_LEAVES = "client leaves"
    CLIENT_SLOW = "client slow"
    SKEWED = "skewed"  # From now on, the clock of this process is wrong by minutes.


@cache
def applies(fault: Fault, kind: str) -> bool:
    """Return True if the fault applies to this kind of side effect."""
    method = "" if kind in WITHOUT_TABLE else kind.rpartition(".")[2]
    reads, writes = method in TABLE_READS, method in TABLE_WRITES
    match fault:
        case Fault.FROZEN_BEFORE | Fault.OVERTAKEN:
            return kind not in ("invoke", "queue.receive")
        case Fault.CRASH_BEFORE | Fault.FROZEN_AFTER:
            return kind not in ("invoke", "queue.receive", *MOMENTS)
        case Fault.CRASH_AFTER:
            return writes or kind in (
                *BLOB_WRITES, *REMOTE_WRITES, "queue.send", "queue.delete", *TO_CLIENT, "agent.effect", "webhook.post"
            )  # fmt: skip
        case Fault.CRASH_IN_FLIGHT:
            return writes or kind in (*BLOB_WRITES, *REMOTE_WRITES, "queue.send", "webhook.post")
        case Fault.KILLED_SOON | Fault.TIME_IS_SHORT:
            return kind == "invoke"
        case Fault.DOUBLED:
            return writes or kind in (*BLOB_WRITES, "queue.send", "queue.receive")
        case Fault.LATE:
            return kind in ("queue.send", "queue.receive")
        case Fault.SEEN_AGAIN | Fault.POISONED | Fault.HANDLER_FAILS | Fault.REDRIVEN:
            return kind == "queue.receive"
        case Fault.PURGED:
            return kind in ("queue.receive", "queue.send")
        case Fault.LOST:
            return kind == "queue.send"
        case Fault.THROTTLED:
            return reads or writes or kind in (
                *BLOB_READS, *BLOB_WRITES, *REMOTE_READS, *REMOTE_WRITES, "queue.send", "queue.count"
            )  # fmt: skip
        case Fault.HALF_MADE | Fault.THROTTLED_REASON:
            return method in TRANSACTIONS
        case Fault.BURST | Fault.SKEWED:
            return reads or writes
        case Fault.CONFLICT:
            return writes and kind not in NOT_IN_TRANSACTIONS
        case Fault.ANSWER_LOST | Fault.ARRIVES_LATE:
            return writes or kind in (*BLOB_WRITES, *REMOTE_WRITES, "queue.send")
        case Fault.STALE:
            return method in INDEX
        case Fault.BLOB_GONE:
            return kind in BLOB_READS
        case Fault.SLOW:
            return reads or writes or kind in ("queue.send", "webhook.post")
        case Fault.CLIENT_LEAVES:
            return kind in TO_CLIENT
        case Fault.CLIENT_SLOW:
            return kind == "sse.write"
    return False


def is_request(kind: str) -> bool:
    """Return True if the side effect is a request to the table."""
    return kind not in WITHOUT_TABLE


WHY_NOT: Mapping[Fault, str] = {
    Fault.CRASH_BEFORE: "no process exists before this, or it is the crash before the next side effect",
    Fault.CRASH_AFTER: "a crash after a read is the crash before the next side effect",
    Fault.CRASH_IN_FLIGHT: "only a request that writes has an effect when its sender is gone",
    Fault.KILLED_SOON: "it is drawn when an invocation begins",
    Fault.TIME_IS_SHORT: "it is drawn when an invocation begins",
    Fault.FROZEN_BEFORE: "no process exists before this",
    Fault.FROZEN_AFTER: "no process exists before this, or it is `frozen before`",
    Fault.OVERTAKEN: "no process exists before this",
    Fault.DOUBLED: "a repeated read changes nothing",
    Fault.LATE: "only messages are late; a slow request is `slow`",
    Fault.SEEN_AGAIN: "only a message becomes visible again",
    Fault.POISONED: "only a message has a body",
    Fault.HANDLER_FAILS: "only messages have a handler",
    Fault.REDRIVEN: "only a message is redriven",
    Fault.PURGED: "only a queue is purged",
    Fault.LOST: "only a message is lost; of an answer it is `answer lost`",
    Fault.THROTTLED: "clients and the agent's own side effects are not throttled",
    Fault.THROTTLED_REASON: "only a transaction has cancellation reasons",
    Fault.BURST: "it is one of the table, for all processes",
    Fault.CONFLICT: "only writes conflict with transactions",
    Fault.ANSWER_LOST: "a read without an answer is `throttled`",
    Fault.ARRIVES_LATE: "a read that arrives late changes nothing",
    Fault.STALE: "every other read is consistent",
    Fault.HALF_MADE: "only a transaction has parts",
    Fault.BLOB_GONE: "only blobs are deleted by a lifecycle rule",
    Fault.SLOW: "no request of the table or the queue",
    Fault.CLIENT_LEAVES: "only a write to a client finds that it has left",
    Fault.CLIENT_SLOW: "only a stream is read slowly",
    Fault.SKEWED: "it is drawn at a request to the table",
}
"""Reason why a fault does not apply to the other kinds of side effect."""


DEADLY = {fault.value for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.CRASH_IN_FLIGHT, Fault.KILLED_SOON)}

HARMLESS = frozenset(
    {
        Fault.TIME_IS_SHORT,
        Fault.CLIENT_LEAVES,
        Fault.CLIENT_SLOW,
        Fault.POISONED,
        Fault.REDRIVEN,
        Fault.SEEN_AGAIN,
        Fault.SLOW,
        Fault.HALF_MADE,
        Fault.STALE,
        Fault.CONFLICT,
    }
)
"""Faults after which all work is done without the sweep."""


@dataclass(frozen=True)
class Aim:
    """One fault at the nth side effect of a kind; of any kind if `kind` is empty."""

    fault: Fault
    kind: str
    nth: int
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.fault.value} at {self.kind or 'any'} #{self.nth} ({self.amount:g})"


@dataclass
class FaultPlan:
    """Planned faults of a schedule: it counts the side effects, and returns a fault when its side effect is reached."""

    aims: Sequence[Aim] = ()
    counts: dict[str, int] = field(default_factory=dict)
    points: list[str] = field(default_factory=list)
    """The kind of each side effect so far."""

    def at(self, kind: str) -> Aim | None:
        """Count a side effect of this kind; return the fault that is planned for it."""
        self.points.append(kind)
        nth = self.counts[kind] = self.counts.get(kind, 0) + 1
        for aim in self.aims:
            if (aim.kind == kind and aim.nth == nth) or (not aim.kind and aim.nth == len(self.points)):
                return aim
        return None


AMOUNTS: Mapping[Fault, Sequence[float]] = {
    Fault.FROZEN_BEFORE: (1.0, 5.0, 29.0, 31.0, 45.0, 95.0, 400.0, 21_600.0),
    Fault.FROZEN_AFTER: (1.0, 5.0, 29.0, 31.0, 45.0, 95.0, 400.0, 21_600.0),
    Fault.OVERTAKEN: (0.0, 0.003, 0.02, 0.5, 3.0),
    Fault.CRASH_IN_FLIGHT: (0.005, 0.5, 3.0),
    Fault.ARRIVES_LATE: (0.005, 0.03, 0.5, 3.0, 40.0),
    Fault.KILLED_SOON: (0.01, 0.05, 0.2, 1.0, 7.0, 40.0),
    Fault.TIME_IS_SHORT: (5.0, 20.0, 45.0, 70.0, 120.0),
    Fault.DOUBLED: (1.0, 2.0, 3.0, 4.0),
    Fault.LATE: (1.0, 35.0, 200.0, 900.0),
    Fault.SEEN_AGAIN: (0.05, 0.5, 3.0, 31.0),
    Fault.REDRIVEN: (60.0, 3600.0),
    Fault.BURST: (0.5, 3.0, 12.0, 40.0),
    Fault.CONFLICT: (0.0, 1.0, 2.0, 3.0),
    Fault.THROTTLED_REASON: (0.0, 1.0, 2.0, 3.0),
    Fault.STALE: (1.0, 2.0),
    Fault.HALF_MADE: (0.005, 0.05),
    Fault.SLOW: (0.3, 2.5, 6.0),
    Fault.CLIENT_SLOW: (0.5, 20.0),
    Fault.SKEWED: (-600.0, -60.0, 60.0, 600.0),
}
"""Possible amounts of a fault, in seconds; for DOUBLED the number of repetitions, for CONFLICT and THROTTLED_REASON the
place of the write in the transaction.

For STALE, 1 means the old entries of the index, and 2 both the old and the new entries.
"""


def amount_of(fault: Fault, random: Random) -> float:
    """Draw the fault's amount, such as its seconds."""
    return random.choice(AMOUNTS.get(fault, (0.0,)))


def draw(random: Random, reached: Mapping[str, int], *, faults: Iterable[Fault] = Fault) -> list[Aim]:
    """Draw one to three faults, each at one of the side effects that `reached` counts by kind."""
    meaningful = [(fault, kinds) for fault in faults if (kinds := [kind for kind in reached if applies(fault, kind)])]
    aims = []
    for _ in range(random.choices((1, 2, 3), (5, 3, 2))[0]):
        fault, kinds = random.choice(meaningful)
        aimed = random.choice(kinds)
        aims.append(Aim(fault, aimed, random.randint(1, reached[aimed]), amount_of(fault, random)))
    return aims
