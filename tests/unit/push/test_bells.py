"""The bells of notifications as messages of a queue: ids, and nothing else."""

import json

import pytest

from aion_core.errors import UnreadableBell
from aion_core.ports import PushBell, TaskKey
from aion_core.ports.bells import push_bell_of, push_body_of


@pytest.mark.parametrize("owner", ["ann", "a#b|c", "Zoë \U0001f98a", "\ud800"])
@pytest.mark.parametrize("generation", [0, 7])
def test_a_bell_is_read_as_it_was_written(owner: str, generation: int) -> None:
    bell = PushBell(TaskKey(owner, "t-1"), generation)
    body = push_body_of(bell)
    assert push_bell_of(body) == bell
    assert body.isascii(), "SQS refuses some of the others"


@pytest.mark.parametrize(
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
def test_what_is_no_bell_of_a_notification_is_refused(body: str) -> None:
    with pytest.raises(UnreadableBell):
        push_bell_of(body)
