"""Requests of the table over DynamoDB: the operation, and the token of a transaction."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.table.conditions import Exists
from aion_core.table.item import Key
from aion_core.table.writes import Change, ConditionCheck, Delete, Put, Update, Write
from aion_tools.stack.stack import client_of
from tests.support.answers import answers

KEY = Key("p", "s")
Sent = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def sent() -> Sent:
    """Return the requests with their operations."""
    return []


@pytest.fixture
def table(sent: Sent) -> DynamoDBTable:
    client = client_of("dynamodb", "http://127.0.0.1:9")

    def note(request: Any, **_: Any) -> None:
        sent.append((request.headers["X-Amz-Target"].decode().partition(".")[2], json.loads(request.body)))

    client.meta.events.register("before-send", note)
    answers(client, 200, b"{}")
    return DynamoDBTable(AwsClient("dynamodb", ThreadPoolExecutor(1), client=client), name="T")


@pytest.mark.parametrize(
    ("write", "operation"),
    [(Put(KEY, {}), "PutItem"), (Update(KEY, Change(values={"a": 1})), "UpdateItem"), (Delete(KEY), "DeleteItem")],
)
async def test_transaction_of_one_write_is_single_request(
    table: DynamoDBTable, sent: Sent, write: Write, operation: str
) -> None:
    await table.transact([write])
    assert [name for name, _ in sent] == [operation]
    assert "ReturnValues" not in sent[0][1]


@pytest.mark.parametrize(
    ("writes", "token"),
    [([Put(KEY, {})], "t"), ([ConditionCheck(KEY, Exists())], ""), ([Put(KEY, {}), Delete(Key("p", "other"))], "")],
    ids=["token", "check", "two writes"],
)
async def test_transaction_is_used_for_several_writes_token_or_check(
    table: DynamoDBTable, sent: Sent, writes: list[Write], token: str
) -> None:
    await table.transact(writes, token=token)
    [(operation, request)] = sent
    assert operation == "TransactWriteItems"
    assert request["ClientRequestToken"] == token or not token


@pytest.mark.parametrize(
    ("write", "values"),
    [(Put(KEY, {}), None), (Update(KEY, Change(values={"a": 1})), "ALL_NEW"), (Delete(KEY), "ALL_OLD")],
)
async def test_only_updates_and_deletes_ask_dynamodb_for_item(
    table: DynamoDBTable, sent: Sent, write: Put | Update | Delete, values: str | None
) -> None:
    await table.write(write, returning=True)
    assert sent[0][1].get("ReturnValues") == values


async def test_blocking_and_async_calls_send_same_requests(table: DynamoDBTable, sent: Sent) -> None:
    assert await table.get(KEY) is None
    assert table.get_blocking(KEY) is None
    await table.write(Put(KEY, {"a": 1}))
    table.write_blocking(Put(KEY, {"a": 1}))
    assert sent[0] == sent[1]
    assert sent[2] == sent[3]
    assert sent[0][1]["ConsistentRead"] is True
