"""Requests that DynamoDB refuses. Other tests rely on these refusals, so at least one database must refuse each."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests.support.databases import Stack

pytestmark = pytest.mark.each_database

Write = dict[str, Any]


class PlainTable:
    """The stack's DynamoDB table, called by plain boto3 requests without our adapter."""

    def __init__(self, stack: Stack) -> None:
        self.name = stack.environment("ApiFunction")["AION_TABLE"]
        self.client = stack.client("dynamodb")
        self.pk = f"refused-{uuid4()}"

    def put(self, sk: str = "1", *, pk: Any = None, **attributes: Any) -> Write:
        return {"Put": {"TableName": self.name, "Item": {"pk": pk or {"S": self.pk}, "sk": {"S": sk}, **attributes}}}

    def add(self, sk: str = "1") -> Write:
        return {
            "Update": {
                "TableName": self.name,
                "Key": {"pk": {"S": self.pk}, "sk": {"S": sk}},
                "UpdateExpression": "ADD times :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
        }

    def transact(self, *writes: Write, **options: Any) -> None:
        self.client.transact_write_items(TransactItems=list(writes), **options)

    def item(self, sk: str = "1") -> Any:
        return self.client.get_item(TableName=self.name, Key={"pk": {"S": self.pk}, "sk": {"S": sk}}).get("Item")


@pytest.fixture
def table(stack: Stack) -> PlainTable:
    return PlainTable(stack)


@pytest.fixture
def indexed(table: PlainTable) -> Iterator[str]:
    """Create another table, whose index has a number as its sort key; yield its name."""
    name = f"{table.name}-{uuid4().hex[:8]}"
    types = {"pk": "S", "sk": "S", "due": "N"}
    table.client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in types.items()],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "due",
                "KeySchema": [{"AttributeName": "sk", "KeyType": "HASH"}, {"AttributeName": "due", "KeyType": "RANGE"}],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
    yield name
    table.client.delete_table(TableName=name)


@pytest.fixture
def not_on_moto(request: pytest.FixtureRequest) -> None:
    """Expect the test to fail on moto: only other databases refuse the request."""
    if request.node.callspec.params["stack"] == "moto":
        request.applymarker(pytest.mark.xfail(reason="moto does not look", strict=True))


def refused(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


@pytest.mark.usefixtures("not_on_moto")
def test_dynamodb_transaction_with_token_is_made_once(table: PlainTable) -> None:
    for _ in range(2):
        table.transact(table.add(), ClientRequestToken=table.pk[-36:])
    assert table.item()["times"] == {"N": "1"}


@pytest.mark.usefixtures("not_on_moto")
def test_token_reused_for_different_transaction_is_refused(table: PlainTable) -> None:
    table.transact(table.add("1"), ClientRequestToken=table.pk[-36:])
    with pytest.raises(ClientError) as error:
        table.transact(table.add("2"), ClientRequestToken=table.pk[-36:])
    assert refused(error) == "IdempotentParameterMismatchException"


@pytest.mark.usefixtures("not_on_moto")
def test_transaction_over_4_mb_is_refused(table: PlainTable) -> None:
    with pytest.raises(ClientError) as error:
        table.transact(*(table.put(str(n), large={"B": bytes(390_000)}) for n in range(11)))
    assert refused(error) == "ValidationException"
    assert table.item("0") is None


@pytest.mark.parametrize("in_a_transaction", [False, True])
@pytest.mark.usefixtures("not_on_moto")
def test_unused_dynamodb_expression_value_is_refused(table: PlainTable, in_a_transaction: bool) -> None:
    write = table.put()
    write["Put"] |= {
        "ConditionExpression": "attribute_not_exists(pk)",
        "ExpressionAttributeValues": {":unused": {"S": "x"}},
    }
    with pytest.raises(ClientError) as error:
        table.transact(write) if in_a_transaction else table.client.put_item(**write["Put"])
    assert refused(error) == "ValidationException"


def test_table_key_of_wrong_type_is_refused(table: PlainTable) -> None:
    with pytest.raises(ClientError) as error:
        table.client.put_item(**table.put(pk={"N": "1"})["Put"])
    assert refused(error) == "ValidationException"


@pytest.mark.usefixtures("not_on_moto")
def test_index_key_of_wrong_type_is_refused(table: PlainTable, indexed: str) -> None:
    write = table.put(due={"S": "soon"})["Put"] | {"TableName": indexed}
    with pytest.raises(ClientError) as error:
        table.client.put_item(**write)
    assert refused(error) == "ValidationException"
    with pytest.raises(ClientError) as error:
        table.transact({"Put": write})
    assert [reason["Code"] for reason in error.value.response["CancellationReasons"]] == ["ValidationError"]


def test_item_over_400_kb_is_refused(table: PlainTable) -> None:
    with pytest.raises(ClientError) as error:
        table.client.put_item(**table.put(large={"B": bytes(410_000)})["Put"])
    assert refused(error) == "ValidationException"
    with pytest.raises(ClientError):
        table.transact(table.put(large={"B": bytes(410_000)}))
    assert table.item() is None


def test_refused_transaction_writes_no_item(table: PlainTable) -> None:
    table.transact(table.put("1"))
    second = table.put("1")
    second["Put"]["ConditionExpression"] = "attribute_not_exists(pk)"
    with pytest.raises(ClientError) as error:
        table.transact(table.put("0"), second)
    assert refused(error) == "TransactionCanceledException"
    assert [reason["Code"] for reason in error.value.response["CancellationReasons"]] == [
        "None",
        "ConditionalCheckFailed",
    ]
    assert table.item("0") is None


def test_transaction_with_item_twice_is_refused(table: PlainTable) -> None:
    with pytest.raises(ClientError) as error:
        table.transact(table.put(), table.add())
    assert refused(error) == "ValidationException"


@pytest.mark.parametrize("in_a_batch", [False, True])
def test_message_delay_over_15_minutes_is_refused(
    stack: Stack, request: pytest.FixtureRequest, in_a_batch: bool
) -> None:
    if request.node.callspec.params["stack"] == "ministack":
        request.applymarker(pytest.mark.xfail(reason="ministack 1.5.33 takes any DelaySeconds", strict=True))
    queue, sqs = stack.environment("ApiFunction")["AION_TASK_QUEUE_URL"], stack.client("sqs")
    message = {"MessageBody": "-", "DelaySeconds": 901}
    if in_a_batch:
        assert sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "1", **message}]).get("Failed")
    else:
        with pytest.raises(ClientError):
            sqs.send_message(QueueUrl=queue, **message)
