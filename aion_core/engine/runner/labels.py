"""Labels of a turn in log records, spans and traces. Pure."""

from collections.abc import Mapping
from typing import Any

from aion_core.engine.context.record import task_of
from aion_core.engine.records import Lease
from aion_core.protocol.aion.trace_context import traceparent_of, tracestate_of
from aion_core.table.times import moment
from aion_core.trace.step import TracedTurn


def labels_of(lease: Lease, request: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of the turn's log records: task, context, agent and, if the request has one, the trace.

    `request` is the metadata of the request with the client's message.
    """
    traceparent, context = traceparent_of(request), lease.context
    labels = {"task_id": lease.turn.task_id, "context_id": context.context_id, "agent": context.agent}
    trace = {"traceparent": traceparent, "tracestate": tracestate_of(request)} if traceparent else {}
    return labels | trace


def attributes_of(lease: Lease) -> dict[str, str | int]:
    """Return the attributes of the turn's trace span: ids, and the numbers of tries and handoffs."""
    turn, context = lease.turn, lease.context
    return {
        "aion.task_id": turn.task_id,
        "aion.context_id": context.context_id,
        "aion.agent": context.agent,
        "aion.turn_id": turn.id,
        "aion.tries": turn.tries,
        "aion.handoffs": turn.handoffs,
    }


def start_of(lease: Lease) -> dict[str, str | int]:
    """Return the fields of the log record for the start of the turn: turn, lease, tries, handoffs, last stop and wait."""
    turn = lease.turn
    waited = {"waited_since": moment(turn.wait.since).isoformat(timespec="seconds")} if turn.wait is not None else {}
    return {
        "turn_id": turn.id,
        "tries": turn.tries,
        "handoffs": turn.handoffs,
        "stopped_by": turn.stopped_by or "",
        "fence": lease.fence,
        "holder": lease.holder,
        **waited,
    }


def traced(lease: Lease) -> TracedTurn:
    """Return the names of the turn in the trace of its steps."""
    turn, context = lease.turn, lease.context
    return TracedTurn(task_of(context, turn), context.context_id, context.agent, turn.id, lease.fence)
