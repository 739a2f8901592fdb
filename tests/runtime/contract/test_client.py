"""Conversion of DynamoDB's errors: transient, refused and permanent."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from aion_core.aws.client import AwsClient
from aion_core.errors import StoreError, StoreUnavailable, TableMissing
from aion_core.table.refusals import TokenReused, WriteRefused
from aion_tools.stack.stack import client_of
from tests.support.answers import answers

WRITE = {"Put": {"TableName": "Table", "Item": {"pk": {"S": "1"}}}}
CANCELED = "TransactionCanceledException"


@pytest.mark.parametrize(
    ("status", "code", "reasons", "error"),
    [
        (400, "ConditionalCheckFailedException", (), WriteRefused),
        (400, "TransactionConflictException", (), WriteRefused),
        (400, "ThrottlingException", (), StoreUnavailable),
        (400, "RequestTimeout", (), StoreUnavailable),
        (409, "OperationAborted", (), StoreUnavailable),
        (400, "ProvisionedThroughputExceededException", (), StoreUnavailable),
        (400, "ValidationException", (), StoreError),
        (400, "AccessDeniedException", (), StoreError),
        (500, "InternalServerError", (), StoreUnavailable),
        (500, "SomethingNew", (), StoreUnavailable),
        (503, "", (), StoreUnavailable),
        (400, CANCELED, ("None", "ConditionalCheckFailed"), WriteRefused),
        (400, CANCELED, ("TransactionConflict", "None"), WriteRefused),
        (400, CANCELED, ("ConditionalCheckFailed", "ValidationError"), StoreError),
        (400, CANCELED, ("ConditionalCheckFailed", "ThrottlingError"), StoreUnavailable),
        (400, "IdempotentParameterMismatchException", (), TokenReused),
        (400, "TransactionInProgressException", (), StoreUnavailable),
        (400, CANCELED, ("None", "ThrottlingError"), StoreUnavailable),
        (400, CANCELED, ("None", "ProvisionedThroughputExceeded"), StoreUnavailable),
        (400, CANCELED, ("None", "ValidationError"), StoreError),
        (400, CANCELED, ("None", "ItemCollectionSizeLimitExceeded"), StoreError),
    ],
)
async def test_aws_response_status_and_error_code_decide_raised_exception(
    status: int, code: str, reasons: tuple[str, ...], error: type[Exception]
) -> None:
    client = client_of("dynamodb", "http://127.0.0.1:9")
    said = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "CancellationReasons": [{"Code": r} for r in reasons]}
    answers(client, status, json.dumps(said).encode() if code else b"")
    with pytest.raises(error) as caught:
        await AwsClient("dynamodb", ThreadPoolExecutor(1), client=client)("transact_write_items", TransactItems=[WRITE])
    assert caught.type is error
    if issubclass(error, StoreError):
        assert str(caught.value).startswith(f"TransactWriteItems: {code or status}")
    assert set(reasons) <= set(str(caught.value).replace(",", "").split())


async def test_invalid_request_raises_store_error() -> None:
    calls = AwsClient("dynamodb", ThreadPoolExecutor(1), client=client_of("dynamodb", "http://127.0.0.1:9"))
    with pytest.raises(StoreError) as caught:
        await calls("put_item", TableName="Table", Item={"pk": "not an attribute"})
    assert caught.type is StoreError


async def test_error_for_missing_table_names_table() -> None:
    client = client_of("dynamodb", "http://127.0.0.1:9")
    answers(client, 400, json.dumps({"__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}).encode())
    calls = AwsClient("dynamodb", ThreadPoolExecutor(1), client=client, table="my-table")
    with pytest.raises(
        TableMissing, match=r"^The table my-table does not exist\. .*GetItem: ResourceNotFoundException$"
    ):
        await calls("get_item", TableName="my-table", Key={"pk": {"S": "1"}})
