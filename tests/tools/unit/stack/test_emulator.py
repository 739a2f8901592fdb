"""AWS emulator: it serves programs on this machine, refuses requests of web pages, and loses no queue message."""

import socket
import time
from collections.abc import Iterator

import boto3
import httpx
import pytest

from aion_tools.stack import REGION
from aion_tools.stack.emulator import Emulator
from aion_tools.stack.stack import LocalStack

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


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    with LocalStack.start("template.yaml") as found:
        yield found


def test_disconnected_queue_poll_receives_no_message(stack: LocalStack) -> None:
    """Disconnect during a long poll, as a killed worker does: the next message stays visible for others."""
    queue, sqs = stack.environment("ApiFunction")["AION_TASK_QUEUE_URL"], stack.client("sqs")
    body = f'{{"QueueUrl": "{queue}", "WaitTimeSeconds": 20}}'
    gone = socket.create_connection(("127.0.0.1", stack.emulator.port))
    head = [
        "POST / HTTP/1.1",
        "Host: 127.0.0.1",
        "Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sqs/aws4_request, Signature=x",
        "X-Amz-Target: AmazonSQS.ReceiveMessage",
        "Content-Type: application/x-amz-json-1.0",
        f"Content-Length: {len(body)}",
    ]
    gone.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())
    while stack.emulator.polls_waiting == 0:
        time.sleep(0.01)
    gone.close()
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"][0]["Body"] == "x"


def test_received_queue_messages_become_visible_after_release(stack: LocalStack) -> None:
    queue, sqs = stack.environment("ApiFunction")["AION_PUSH_QUEUE_URL"], stack.client("sqs")
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert sqs.receive_message(QueueUrl=queue)["Messages"]
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    stack.emulator.release_messages()
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "x"
