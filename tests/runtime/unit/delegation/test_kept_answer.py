"""What a call keeps of an answer: counted within the limits of agents, whatever its form, and put together again."""

import json
from collections.abc import Callable
from functools import lru_cache
from itertools import count

import pytest
from google.protobuf.json_format import ParseDict

from aion_core.agent_client.bounded import UnusableAnswer
from aion_core.agent_client.limits import OF_AGENTS
from aion_core.delegation.kept_answer import KeptAnswer
from aion_core.protocol.types import StreamResponse
from tests.support import hostile
from tests.support.rows import each_row

WORKING = b'{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}'
ENDED = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}


def chunk(text: str, number: int, *, artifact: int = 0) -> bytes:
    return hostile.artifact(json.dumps({"text": text}).encode(), artifact, append=number > 0)


def response(event: bytes) -> StreamResponse:
    return ParseDict(json.loads(event), StreamResponse())


def accepted(event: Callable[[int], bytes], *, keeps: bool = True) -> int:
    """Return the number of these events that a call keeps until it refuses the answer."""
    answer = KeptAnswer(keeps_responses=keeps)
    kept = 0
    # Parse equal events once: most rows have tens of thousands.
    parsed = lru_cache(maxsize=4)(response)

    def add_all() -> None:
        nonlocal kept
        for kept in count():
            answer.add(parsed(event(kept)))

    with pytest.raises(UnusableAnswer, match=r"It is larger than 6 MB in all\."):
        add_all()
    return kept


@each_row(
    ("event", "least", "most"),
    [
        (lambda number: chunk("four", number), 65_000, 80_000),
        (lambda number: hostile.DELTA % (b"true" if number else b"false"), 25_000, 70_000),
        (lambda _: WORKING, 90_000, 110_000),
        (lambda number: hostile.artifact(hostile.SMALL_PARTS, append=number > 0), 5, 10),
        (lambda number: hostile.artifact(b'{"data":[%s0]}' % (b"0," * 10_000), number), 2, 5),
        (lambda number: chunk("x" * 100_000, 0, artifact=number), 10, 16),
        (hostile.message, 2_000, 5_000),
    ],
)
def test_endless_answer_is_refused(event: Callable[[int], bytes], least: int, most: int) -> None:
    assert least <= accepted(event) <= most


def test_messages_that_become_events_count_more() -> None:
    assert 800 <= accepted(hostile.message, keeps=False) <= 1_500


def test_streamed_text_counts_until_its_message() -> None:
    answer, delta = KeptAnswer(keeps_responses=True), response(hostile.DELTA % b"true")
    for number in range(5):
        for _ in range(20_000):
            answer.add(delta)
        answer.add(response(hostile.message(number)))


def test_chunks_of_artifacts_are_put_together() -> None:
    answer = KeptAnswer(keeps_responses=True)
    for number, text in enumerate("abc"):
        answer.add(response(chunk(text, number)))
    answer.add(response(WORKING))
    answer.add(response(chunk("d", 3)))
    for number, text in enumerate("xy"):
        answer.add(response(chunk(text, number, artifact=1)))
    answer.add(response(chunk("e", 4)))
    answer.add(response(hostile.artifact(b'{"url":"f"}', append=True)))
    answer.add(response(chunk("g", 5)))
    answer.add(ParseDict(ENDED, StreamResponse()))
    task = answer.outcome.task
    assert task is not None
    found = {each.artifact_id: [part.text or part.url for part in each.parts] for each in task.artifacts}
    assert found == {"a0": ["abcde", "f", "g"], "a1": ["xy"]}


def test_file_of_largest_size_is_kept() -> None:
    file = hostile.artifact(b'{"raw":"%s"}' % (b"AAAA" * ((OF_AGENTS.answer - 10_000) // 4)))
    assert accepted(lambda _: file) == 1
