"""Schedules that have shown something once, each with its faults: they are played in every `make test`.

Begun anew with the stores over the table port: the seeds of before draw other schedules now. With the scenario and the
faults written out, a schedule stays what it was when scenarios, faults or side effects are added.
"""

from tests.simulation.faults import Aim, Fault

KEPT: tuple[tuple[str, int, tuple[Aim, ...]], ...] = (
    # A process stood still between its two reads of a task, and registered a push config for an event of before.
    ("begins to listen late", 1145, (Aim(Fault.FROZEN_AFTER, "register.query", 3, 95.0),)),
    # A lease check was throttled under an agent that hangs, and that is begun again for another reason.
    ("an agent that hangs", 20254, (Aim(Fault.THROTTLED, "renew.write_blocking", 51),)),
)
