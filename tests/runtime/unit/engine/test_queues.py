"""Bodies of wake-up messages for push delivery."""

import json

import pytest
from msgspec.structs import replace

from aion_core.engine.queues import PushWakeUp, push_body_of, push_wake_up_of
from aion_core.errors import UnreadableWakeUp
from aion_core.table.keys import TaskKey
from tests.support.rows import each_row


@each_row("owner", ["ann", "a#b|c", "Zoë \U0001f98a", "\ud800"])
@each_row("generation", [0, 7])
def test_push_message_is_read_as_written(owner: str, generation: int) -> None:
    wake_up = PushWakeUp(TaskKey(owner, "t-1"), generation)
    body = push_body_of(wake_up)
    assert push_wake_up_of(body) == wake_up
    assert body.isascii(), "SQS refuses some of the others"


def test_push_message_carries_trace_with_tracestate() -> None:
    traceparent = f"00-{'4b' * 16}-{'f0' * 8}-01"
    wake_up = PushWakeUp(TaskKey("ann", "t-1"), traceparent=traceparent, tracestate="k=" + 510 * "v")
    assert push_wake_up_of(push_body_of(wake_up)) == wake_up


def test_push_message_omits_tracestate_longer_than_512_characters() -> None:
    wake_up = PushWakeUp(TaskKey("ann", "t-1"), traceparent="00", tracestate="k=" + 511 * "v")
    assert push_wake_up_of(push_body_of(wake_up)) == replace(wake_up, tracestate="")


@each_row(
    "body",
    [
        "poison",
        "{}",
        json.dumps({"v": 2, "owner": "ann", "task_id": "t-1", "generation": 1}),
        json.dumps({"v": 1, "owner": "", "task_id": "t-1", "generation": 1}),
        json.dumps({"v": 1, "owner": "ann", "task_id": ["t-1"], "generation": 1}),
        json.dumps({"v": 1, "owner": "ann", "agent": "echo", "context_id": "c-1", "fence": 1}),
    ],
)
def test_invalid_push_message_is_refused(body: str) -> None:
    with pytest.raises(UnreadableWakeUp):
        push_wake_up_of(body)
