"""What may go wrong at a side effect, and a plan, drawn from a seed, of what does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

WRITES = (
    "store.create",
    "store.follow_up",
    "store.begin",
    "store.append",
    "store.finish",
    "store.pause",
    "store.append_deltas",
    "store.cancel",
    "store.claim",
    "store.renew",
)
PUSH_WRITES = ("push.register", "push.claim", "push.move", "push.clear", "push.sweep")
READS = ("store.known", "store.head", "store.log", "store.deltas", "store.overdue", "store.holds")
STORE = (*WRITES, *READS)
PUSH = (*PUSH_WRITES, "push.read")
AGENT = ("agent.effect", "agent.checkpoint", "agent.read")
SPEECH = ("sse.write", "answer.write")
KINDS = (*STORE, "bell.ring", "queue.receive", "queue.delete", *SPEECH, *AGENT, *PUSH, "webhook.post", "invoke")
"""Every kind of side effect there is; "invoke" is the beginning of an invocation."""


class Fault(StrEnum):
    """What happens at a side effect, with its number in RELIABILITY's list."""

    CRASH_BEFORE = "crash before"  # 1
    CRASH_AFTER = "crash after"  # 1
    CRASH_IN_FLIGHT = "crash in flight"  # 1: the process dies, and what it sent still arrives
    KILLED_SOON = "killed soon"  # 3, without notice
    TIME_IS_SHORT = "time is short"  # 3, with notice
    FROZEN_BEFORE = "frozen before"  # 4
    FROZEN_AFTER = "frozen after"  # 4
    OVERTAKEN = "overtaken"  # 4, 8: frozen until somebody else has the lease, and then a little longer
    DOUBLED = "doubled"  # 5 of a bell; of a write, a client that tries again what had succeeded
    LATE = "late"  # 6, 7, 45
    SEEN_AGAIN = "seen again"  # 8: the message becomes visible while its function still runs
    POISONED = "poisoned"  # 9: a bell for what has never been
    HANDLER_FAILS = "handler fails"  # 10, 11
    REDRIVEN = "redriven"  # 12
    PURGED = "purged"  # 13
    LOST = "lost"  # 13, of one bell
    THROTTLED = "throttled"  # 15, 16 as the adapter tells it: nothing was done
    BURST = "burst"  # 14
    ANSWER_LOST = "answer lost"  # 17
    STALE = "stale"  # 18
    SLOW = "slow"  # a call that takes seconds
    CLIENT_LEAVES = "client leaves"  # 25
    CLIENT_SLOW = "client slow"  # 26
    SKEWED = "skewed"  # 32: from here on the clock of this process is minutes off


_EVERYWHERE = tuple(kind for kind in KINDS if kind not in ("invoke", "queue.receive"))
APPLIES: Mapping[Fault, tuple[str, ...]] = {
    Fault.CRASH_BEFORE: _EVERYWHERE,
    Fault.CRASH_AFTER: (
        *WRITES,
        "bell.ring",
        "queue.delete",
        *SPEECH,
        "agent.effect",
        "agent.checkpoint",
        *PUSH_WRITES,
        "webhook.post",
    ),
    Fault.CRASH_IN_FLIGHT: (*WRITES, "bell.ring", "agent.checkpoint", *PUSH_WRITES, "webhook.post"),
    Fault.KILLED_SOON: ("invoke",),
    Fault.TIME_IS_SHORT: ("invoke",),
    Fault.FROZEN_BEFORE: _EVERYWHERE,
    Fault.FROZEN_AFTER: _EVERYWHERE,
    Fault.OVERTAKEN: _EVERYWHERE,
    Fault.DOUBLED: (*WRITES, "bell.ring", "agent.checkpoint", "queue.receive", "push.register", "push.clear"),
    Fault.LATE: ("bell.ring", "queue.receive"),
    Fault.SEEN_AGAIN: ("queue.receive",),
    Fault.POISONED: ("queue.receive",),
    Fault.HANDLER_FAILS: ("queue.receive",),
    Fault.REDRIVEN: ("queue.receive",),
    Fault.PURGED: ("queue.receive", "bell.ring"),
    Fault.LOST: ("bell.ring",),
    Fault.THROTTLED: (*STORE, "bell.ring", "agent.checkpoint", "agent.read", *PUSH),
    Fault.BURST: (*STORE, *PUSH),
    Fault.ANSWER_LOST: (*WRITES, "bell.ring", "agent.checkpoint", *PUSH_WRITES),
    Fault.STALE: ("store.overdue"),
    Fault.SLOW: (*STORE, "bell.ring", "agent.checkpoint", *PUSH, "webhook.post"),
    Fault.CLIENT_LEAVES: SPEECH,
    Fault.CLIENT_SLOW: ("sse.write",),
    Fault.SKEWED: (*STORE, *PUSH),
}
"""At which kinds of side effect a fault can happen."""

WHY_NOT: Mapping[Fault, str] = {
    Fault.CRASH_AFTER: "a crash after a read is the crash before what follows it",
    Fault.CRASH_IN_FLIGHT: "only a request that writes can still do something when its sender is gone",
    Fault.KILLED_SOON: "it is drawn when an invocation begins",
    Fault.TIME_IS_SHORT: "it is drawn when an invocation begins",
    Fault.DOUBLED: "to read twice changes nothing, and who has a claim changes it once by its revision",
    Fault.LATE: "only bells come late; a slow call is `slow`",
    Fault.SEEN_AGAIN: "only a message becomes visible again",
    Fault.POISONED: "only a message has a body that can be nonsense",
    Fault.HANDLER_FAILS: "it is the handler of a message that fails",
    Fault.REDRIVEN: "only a message is redriven",
    Fault.PURGED: "only a queue is purged",
    Fault.LOST: "only a bell is lost; an answer is `answer lost`",
    Fault.THROTTLED: "what goes to the client or into the agent's world is not the store's",
    Fault.BURST: "it is one of the store, for all processes",
    Fault.ANSWER_LOST: "a read whose answer is lost is `throttled`",
    Fault.STALE: "every other read is consistent, as its port promises",
    Fault.SLOW: "no request of the store or the queue",
    Fault.CLIENT_LEAVES: "only what is written to a client tells that it has left",
    Fault.CLIENT_SLOW: "only a stream is read slowly",
    Fault.SKEWED: "it is drawn at a call of the store, whose clock it is",
    Fault.CRASH_BEFORE: "before this there is nothing of the process",
    Fault.FROZEN_BEFORE: "before this there is nothing of the process",
    Fault.OVERTAKEN: "before this there is nothing of the process",
    Fault.FROZEN_AFTER: "before this there is nothing of the process",
}
"""Why a fault has no meaning at the other kinds."""


HARMLESS = frozenset(
    {
        Fault.TIME_IS_SHORT,
        Fault.CLIENT_LEAVES,
        Fault.CLIENT_SLOW,
        Fault.POISONED,
        Fault.REDRIVEN,
        Fault.SEEN_AGAIN,
        Fault.SLOW,
    }
)
"""Faults after which nobody has to be looked for: the sweep finds nothing that is overdue."""


@dataclass(frozen=True)
class Aim:
    """One fault, at the so-manieth side effect of a kind; `kind` "" counts those of every kind."""

    fault: Fault
    kind: str
    nth: int
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.fault.value} at {self.kind or 'any'} #{self.nth} ({self.amount:g})"


@dataclass
class Plan:
    """The faults of a schedule, found by counting its side effects."""

    aims: Sequence[Aim] = ()
    counts: dict[str, int] = field(default_factory=dict)
    points: list[str] = field(default_factory=list)
    """The kind of each side effect so far."""

    def at(self, kind: str) -> Aim | None:
        """Count a side effect of this kind, and return what befalls it."""
        self.points.append(kind)
        nth = self.counts[kind] = self.counts.get(kind, 0) + 1
        for aim in self.aims:
            if (aim.kind == kind and aim.nth == nth) or (not aim.kind and aim.nth == len(self.points)):
                return aim
        return None


def amount_of(fault: Fault, random: Random) -> float:
    """Draw how much of it there is: seconds for most, a number of repeats for what is doubled."""
    match fault:
        case Fault.FROZEN_BEFORE | Fault.FROZEN_AFTER:
            return random.choice((1.0, 5.0, 29.0, 31.0, 45.0, 95.0, 400.0, 21_600.0))
        case Fault.OVERTAKEN:
            return random.choice((0.0, 0.003, 0.02, 0.5, 3.0))
        case Fault.CRASH_IN_FLIGHT:
            return random.choice((0.005, 0.5, 3.0))
        case Fault.KILLED_SOON:
            return random.choice((0.01, 0.05, 0.2, 1.0, 7.0, 40.0))
        case Fault.TIME_IS_SHORT:
            return random.choice((5.0, 20.0, 45.0, 70.0, 120.0))
        case Fault.DOUBLED:
            return float(random.randint(1, 4))
        case Fault.LATE:
            return random.choice((1.0, 35.0, 200.0, 900.0))
        case Fault.SEEN_AGAIN:
            return random.choice((0.05, 0.5, 3.0, 31.0))
        case Fault.REDRIVEN:
            return random.choice((60.0, 3600.0))
        case Fault.BURST:
            return random.choice((0.5, 3.0, 12.0, 40.0))
        case Fault.STALE:
            return random.choice((1.0, 90.0))
        case Fault.SLOW:
            return random.choice((0.3, 2.5, 6.0))
        case Fault.CLIENT_SLOW:
            return random.choice((0.5, 20.0))
        case Fault.SKEWED:
            return random.choice((-600.0, -60.0, 60.0, 600.0))
        case _:
            return 0.0


def draw(random: Random, reached: Mapping[str, int], *, faults: Iterable[Fault] = Fault) -> list[Aim]:
    """Draw one to three faults among the kinds of side effect that a schedule is known to reach, this often."""
    aims = []
    for _ in range(random.choices((1, 2, 3), (5, 3, 2))[0]):
        fault, kind = random.choice(
            [(fault, kinds) for fault in faults if (kinds := [kind for kind in APPLIES[fault] if kind in reached])]
        )
        aimed = random.choice(kind)
        aims.append(Aim(fault, aimed, random.randint(1, reached[aimed]), amount_of(fault, random)))
    return aims
