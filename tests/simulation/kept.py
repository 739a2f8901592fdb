"""Regression schedules, each with its faults: `make test` plays them all.

A schedule includes its faults, because its seed draws other faults once scenarios, faults or side effects are added.
All are older than the clocks that stand still in a freeze: here each process's monotonic clock goes on.
Schedules older than the table port are missing: their seeds no longer reproduce them.
"""

from tests.simulation.faults import Aim, Fault

KEPT: tuple[tuple[str, int, tuple[Aim, ...]], ...] = (
    # A process with a fast clock took over a turn from its event 2, while the holder of the lease recorded event 3.
    ("one messageId, many sends", 616345301309, (Aim(Fault.SKEWED, "create.get", 6, 600.0),)),
    # A process was frozen between its two reads of a task, and registered a push config for an earlier event.
    ("begins to listen late", 1145, (Aim(Fault.FROZEN_AFTER, "register.query", 3, 95.0),)),
    # The deletion of a push config met a transaction on the same item.
    *(("begins to listen late", seed, (Aim(Fault.CONFLICT, "register.write", 1),)) for seed in range(8)),
    # Two queries returned a task's new head without another item of the same transaction.
    ("double texting: reject", 71550, (Aim(Fault.HALF_MADE, "append.transact", 1, 0.05),)),
    # A client listed tasks in pages, while a process with a slow clock moved a status back in time.
    ("many tasks", 70530, (Aim(Fault.CRASH_BEFORE, "list.query_index", 2),)),
    # A process was frozen while it stored a blob, and acquired an almost expired lease.
    ("many tasks", 70098, (Aim(Fault.LOST, "queue.send", 3), Aim(Fault.OVERTAKEN, "blob.put", 3, 0.02))),
    # A lease check was throttled while the agent hung, and the turn was begun again for another reason.
    ("an agent that hangs", 20254, (Aim(Fault.THROTTLED, "renew.write_blocking", 51),)),
    # A client read a task between two writes of the transaction that completed it.
    ("told of a task", 485622101373, (Aim(Fault.HALF_MADE, "finish.transact", 1, 0.05),)),
    # A client subscribed to a task during a transaction of 25 events, and the reader stopped waiting for them too early.
    ("leaves in the middle", 307, (Aim(Fault.HALF_MADE, "append.transact", 5, 0.05),)),
    # Two invocations of one minute were too short for a step, and a fault ended the third invocation.
    ("past fifteen minutes", 485622101957, (Aim(Fault.FROZEN_AFTER, "thread.transact", 8, 45.0),)),
    # A heartbeat frozen during a renewal enqueued its wake-up message after the end of the schedule, with a delay.
    (
        "send and wait",
        915217701043,
        (
            Aim(Fault.LATE, "queue.send", 2, 900.0),
            Aim(Fault.TIME_IS_SHORT, "invoke", 1, 5.0),
            Aim(Fault.SLOW, "holds.get_blocking", 1, 2.5),
        ),
    ),
    # A context expired and was created again with a turn of the same id; only the leases of the two turns differed.
    ("kept for an hour", 1463182601212, (Aim(Fault.THROTTLED, "thread.get", 3),)),
    # An event was recorded with a clock that was ten minutes slow, so the event expired before its task.
    (
        "kept for an hour",
        833933901070,
        (Aim(Fault.DOUBLED, "append.transact", 1, 4), Aim(Fault.SKEWED, "follow_up.get", 2, -600.0)),
    ),
    # A process was frozen for longer than the retention while it created a task.
    (
        "kept for an hour",
        67101001187,
        (Aim(Fault.TIME_IS_SHORT, "invoke", 174, 70.0), Aim(Fault.FROZEN_AFTER, "create.get", 2, 21600.0)),
    ),
    # A reader was frozen until the chunks of the rest of its text had expired.
    ("leaves in the middle", 1653965513393, (Aim(Fault.FROZEN_AFTER, "sse.write", 8, 21600.0),)),
    # A wake-up message that a heartbeat enqueued at the end of the schedule was received by a process that then froze.
    (
        "leaves in the middle",
        794289406018,
        (Aim(Fault.FROZEN_BEFORE, "finish.transact", 1, 21600.0), Aim(Fault.FROZEN_AFTER, "queue.delete", 2, 45.0)),
    ),
)
