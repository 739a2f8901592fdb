"""Timestamps of task statuses, and times between them. Pure."""

from datetime import UTC, datetime, timedelta

from aion_core.protocol.types import Event, Task, TaskState, TaskStatus, TaskStatusUpdateEvent

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_of(status: TaskStatus) -> datetime:
    """Return the timestamp of a task status as a datetime in UTC."""
    # Calculate the time here, because protobuf's ToDatetime returns the same result more slowly.
    return _EPOCH + timedelta(seconds=status.timestamp.seconds, microseconds=status.timestamp.nanos // 1000)


def status_at(state: TaskState, at: datetime) -> TaskStatus:
    """Return a task status with this state and time, rounded down to a millisecond.

    A time in whole seconds is increased by one millisecond. Protobuf's JSON omits a zero fraction, and some clients
    parse only one timestamp format, or sort timestamps as text.
    """
    status = TaskStatus(state=state)
    since_1970 = (at - _EPOCH) // timedelta(milliseconds=1)
    status.timestamp.FromMilliseconds(since_1970 + (since_1970 % 1000 == 0))
    return status


def time_of(event: Event) -> datetime | None:
    """Return the time of a task or status event; None for an event without a timestamp."""
    if not isinstance(event, Task | TaskStatusUpdateEvent) or not event.status.HasField("timestamp"):
        return None
    return timestamp_of(event.status)


def milliseconds(since: datetime, until: datetime) -> float:
    """Return the milliseconds between two times. Return 0 instead of a negative number: clocks of machines differ."""
    return max(0.0, (until - since).total_seconds() * 1000)
