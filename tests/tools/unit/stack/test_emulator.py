"""AWS emulator: it serves programs on this machine and refuses requests of web pages."""

from collections.abc import Iterator

import boto3
import httpx
import pytest

from aion_tools.stack import REGION
from aion_tools.stack.emulator import Emulator

TABLE = "what-is-kept"
LIST_TABLES = {
    "X-Amz-Target": "DynamoDB_20120810.ListTables",
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": f"AWS4-HMAC-SHA256 Credential=a/20260101/{REGION}/dynamodb/aws4_request, SignedHeaders=host, Signature=b",
}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator.start() as found:
        dynamodb = boto3.client(
            "dynamodb",
            endpoint_url=f"http://127.0.0.1:{found.port}",
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        dynamodb.create_table(
            TableName=TABLE,
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield found


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "host.docker.internal:1"}, 200),
        ({"Host": "172.17.0.1:1"}, 200),
        ({"Host": "evil.example.com"}, 403),
        ({"Host": "127.0.0.1.evil.example.com"}, 403),
        ({"Host": "localhost.evil.example.com"}, 403),
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:8000"}, 403),
    ],
)
def test_emulator_refuses_requests_sent_by_web_pages(emulator: Emulator, headers: dict[str, str], status: int) -> None:
    """moto itself would accept cross-site requests, and requests with a foreign host name in the Host header."""
    answer = httpx.post(f"http://127.0.0.1:{emulator.port}/", headers=LIST_TABLES | headers, content=b"{}", timeout=60)
    assert answer.status_code == status
    assert (TABLE in answer.text) is (status == 200)
    assert status == 200 or "access-control-allow-origin" not in answer.headers
