"""What an answer costs in requests to DynamoDB: counted by a botocore hook, not timed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from uuid_utils.compat import uuid7

from aion_core.aws.blobs import S3Blobs
from aion_core.aws.client import Calls
from aion_core.aws.task_store import DynamoDBTaskStore
from aion_core.clock import SystemClock
from aion_core.ports import Delta
from aion_core.protocol.types import Message, Part, Role, SendMessageRequest, TaskState
from aion_core.tasks.service import Call
from tests.support.agents.counting import talking
from tests.support.engines import Stack
from tests.support.service import parts
from tests.support.stores import new_owner

READS = {"GetItem", "Query"}


class Counted:
    """A store on the stack whose requests are counted, retries too."""

    def __init__(self, stack: Stack) -> None:
        self.requests: Counter[str] = Counter()
        client = stack.client("dynamodb")
        client.meta.events.register("before-send.dynamodb.*", self._count)
        executor = ThreadPoolExecutor(16)
        environment = stack.environment("ApiFunction")
        blobs = S3Blobs(Calls("s3", executor, client=stack.client("s3")), bucket=environment["AION_BUCKET"])
        dynamodb = Calls("dynamodb", executor, client=client)
        self.store = DynamoDBTaskStore(dynamodb, blobs, SystemClock(), table=environment["AION_TABLE"])

    def _count(self, event_name: str, **_: object) -> None:
        self.requests[event_name.rpartition(".")[2]] += 1

    @property
    def writes(self) -> int:
        return sum(count for operation, count in self.requests.items() if operation not in READS)


def request(**message: str) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(message_id=str(uuid7()), role=Role.ROLE_USER, parts=[Part(text="talk")], **message)
    )


@pytest.mark.long
@pytest.mark.parametrize(("a_second", "at_most"), [(0, 20), (60, 75)], ids=["in one burst", "60 chunks a second"])
async def test_the_log_of_a_thousand_chunks(stack: Stack, a_second: float, at_most: int) -> None:
    counted = Counted(stack)
    service = parts(talking(1000, a_second), counted.store).service
    call = Call(new_owner(), "test")
    heard = [spoken.what async for batch in service.stream(call, request()) for spoken in batch]
    print(f"1000 chunks, {a_second or 'all'} a second: {dict(counted.requests)}")
    assert counted.writes <= at_most
    chunks = [what.text for what in heard if isinstance(what, Delta)]
    assert chunks == [*(f"word{number:04d} " for number in range(1000)), ""]
    task = await service.get(call, heard[0].id)  # type: ignore[union-attr]  # the first is the task
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert not task.artifacts
    assert len(task.SerializeToString()) < 2 * len("".join(chunks)), "the answer once, and no deltas"


@pytest.mark.parametrize(("context_id", "at_most"), [("", 2), ("given", 3)])
async def test_a_blocking_send_of_one_short_turn(stack: Stack, context_id: str, at_most: int) -> None:
    counted = Counted(stack)
    service = parts(talking(1), counted.store).service
    task = await service.send(Call(new_owner(), "test"), request(context_id=context_id))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    deltas = counted.requests["PutItem"]
    assert sum(counted.requests.values()) - deltas <= at_most


async def test_an_event_costs_the_same_however_long_the_task_is(stack: Stack) -> None:
    """The bytes written for the last of many events are those of the first: nothing rewrites the task."""
    sizes: dict[int, int] = {}
    counted = Counted(stack)

    def measure(event_name: str, request: object, **_: object) -> None:
        body = getattr(request, "body", b"")
        if event_name.endswith("TransactWriteItems"):
            sizes[len(sizes)] = len(body)

    counted.store._dynamodb._client.meta.events.register("before-send.dynamodb.*", measure)
    service = parts(talking(1), counted.store).service
    call = Call(new_owner(), "test")
    for _ in range(12):
        await service.send(call, request(context_id="one"))
    creates, appends = list(sizes.values())[0::2], list(sizes.values())[1::2]
    assert max(creates[1:]) - min(creates[1:]) < 64
    assert max(appends) - min(appends) < 64
