"""Snapshots of the emulator."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from aion_core.table.schema import VERSION
from aion_tools.stack import EmulatorError
from aion_tools.stack.emulator import Emulator
from aion_tools.stack.snapshot import SnapshotFile, Unusable
from aion_tools.stack.stack import LocalStack, client_of

ITEM = {"pk": {"S": "a"}, "sk": {"S": "b"}, "bytes": {"B": b"\0\1"}}
KEY = {"pk": ITEM["pk"], "sk": ITEM["sk"]}


@contextmanager
def stack_of(path: Path, account: str) -> Iterator[LocalStack]:
    """Run a stack with this account id, restored from the snapshot file if it exists."""

    def restore(stack: LocalStack) -> bool:
        return SnapshotFile(path, stack.template, layout=VERSION).restore(stack.emulator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aion_tools.stack.emulator._accounts", iter([account]))
        stack = LocalStack.start("template.yaml", prepare=restore)
    with stack:
        yield stack


def write(stack: LocalStack, path: Path) -> None:
    SnapshotFile(path, stack.template, layout=VERSION).write(stack.emulator)


def test_emulator_snapshot_restores_all_services(tmp_path: Path) -> None:
    path, body = tmp_path / "state", b"large" * 100_000
    with stack_of(path, "900000000001") as stack:
        names = stack.environment("ApiFunction")
        stack.client("dynamodb").put_item(TableName=names["AION_TABLE"], Item=ITEM)
        stack.client("s3").put_object(Bucket=names["AION_BUCKET"], Key="k", Body=body)
        encrypted = stack.client("kms").encrypt(KeyId=names["AION_KMS_KEY"], Plaintext=b"secret")["CiphertextBlob"]
        queue = names["AION_TASK_QUEUE_URL"]
        stack.client("sqs").send_message(QueueUrl=queue, MessageBody="received, and its receiver died")
        assert stack.client("sqs").receive_message(QueueUrl=queue)["Messages"]
        write(stack, path)
    assert path.stat().st_mode & 0o077 == 0
    with stack_of(path, "900000000001") as stack:
        names = stack.environment("ApiFunction")
        dynamodb = stack.client("dynamodb")
        assert dynamodb.get_item(TableName=names["AION_TABLE"], Key=KEY)["Item"] == ITEM
        assert stack.client("s3").get_object(Bucket=names["AION_BUCKET"], Key="k")["Body"].read() == body
        decrypted = stack.client("kms").decrypt(KeyId=names["AION_KMS_KEY"], CiphertextBlob=encrypted)
        assert decrypted["Plaintext"] == b"secret"
        (message,) = stack.client("sqs").receive_message(QueueUrl=names["AION_TASK_QUEUE_URL"])["Messages"]
        assert message["Body"].startswith("received")
        # Send a transaction, because our patch of moto's transactions must also work with restored tables.
        put = {"Put": {"TableName": names["AION_TABLE"], "Item": {**ITEM, "new": {"S": "x"}}}}
        check = {
            "ConditionCheck": {
                "TableName": names["AION_TABLE"],
                "Key": {**KEY, "sk": {"S": "c"}},
                "ConditionExpression": "attribute_exists(pk)",
            }
        }
        with pytest.raises(dynamodb.exceptions.TransactionCanceledException):
            dynamodb.transact_write_items(TransactItems=[put, check])
        assert dynamodb.get_item(TableName=names["AION_TABLE"], Key=KEY)["Item"] == ITEM


def test_read_requests_to_emulator_are_not_counted_as_writes(tmp_path: Path) -> None:
    with stack_of(tmp_path / "state", "900000000002") as stack:
        names, dynamodb, emulator = stack.environment("ApiFunction"), stack.client("dynamodb"), stack.emulator
        before = emulator.writes
        dynamodb.get_item(TableName=names["AION_TABLE"], Key=KEY)
        stack.client("sqs").receive_message(QueueUrl=names["AION_TASK_QUEUE_URL"])
        stack.client("s3").list_objects_v2(Bucket=names["AION_BUCKET"])
        assert emulator.writes == before
        dynamodb.put_item(TableName=names["AION_TABLE"], Item=ITEM)
        assert emulator.writes == before + 1


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"moto": "', b'"moto": "0', "it was written by moto 0"),
        (b'"aion": "', b'"aion": "9', "it was written by aion 9"),
        (b'"resources": "', b'"resources": "x', "template with other resources"),
        (b'"format": ', b'"format": 9', "unknown format"),
        (b"aion snapshot", b"something else", "damaged"),
    ],
)
def test_emulator_snapshot_of_other_program_is_refused(tmp_path: Path, old: bytes, new: bytes, why: str) -> None:
    path = tmp_path / "state"
    with stack_of(path, "900000000003") as stack:
        write(stack, path)
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))
        with pytest.raises(Unusable, match=why):
            SnapshotFile(path, stack.template, layout=VERSION).restore(stack.emulator)


def test_emulator_snapshot_of_other_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with stack_of(path, "900000000003") as stack:
        write(stack, path)
        content, layout = path.read_bytes(), f'"layout": {VERSION}, '.encode()
        assert layout in content
        for other in (b"", f'"layout": {VERSION - 1}, '.encode()):
            path.write_bytes(content.replace(layout, other, 1))
            with pytest.raises(EmulatorError) as refused:
                SnapshotFile(path, stack.template, layout=VERSION).restore(stack.emulator)
            assert str(refused.value) == (
                f"{path} has another layout of stored items than this version of aion reads ({VERSION}): delete this file, "
                "or start with `aion dev --store dynamodb --fresh`"
            )


@pytest.mark.parametrize("length", [0, 5, 200, -1])
def test_truncated_emulator_snapshot_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "state"
    with stack_of(path, "900000000004") as stack:
        write(stack, path)
        path.write_bytes(path.read_bytes()[:length])
        file = SnapshotFile(path, stack.template, layout=VERSION)
        with pytest.raises(Unusable, match="damaged"):
            file.restore(stack.emulator)
        assert file.set_aside() == tmp_path / "state.unusable"
        assert not path.exists()


def test_disconnected_queue_poll_receives_no_message(tmp_path: Path) -> None:
    """Disconnect during a long poll, as a killed worker does: the next message stays visible for others."""
    import socket

    with stack_of(tmp_path / "state", "900000000005") as stack:
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


def test_paused_emulator_delays_write_until_pause_ends(tmp_path: Path) -> None:
    from threading import Thread

    with stack_of(tmp_path / "state", "900000000006") as stack:
        table, emulator = stack.environment("ApiFunction")["AION_TABLE"], stack.emulator
        put = Thread(target=lambda: stack.client("dynamodb").put_item(TableName=table, Item=ITEM))
        with emulator.paused():
            before = emulator.writes
            put.start()
            while emulator.writes == before:
                put.join(0.01)
            assert put.is_alive(), "the request has arrived and waits"
        put.join()
        assert isinstance(emulator, Emulator)
        assert stack.client("dynamodb").get_item(TableName=table, Key=KEY)["Item"] == ITEM


@pytest.mark.parametrize("header", [b"{rubbish", b"[]", b"1", b"\xff\xfe", b""])
def test_emulator_snapshot_with_broken_header_is_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "state"
    with stack_of(path, "900000000006") as stack:
        write(stack, path)
        magic, _, rest = path.read_bytes().split(b"\n", 2)
        path.write_bytes(b"\n".join([magic, header, rest]))
        with pytest.raises(Unusable, match="damaged"):
            SnapshotFile(path, stack.template, layout=VERSION).restore(stack.emulator)


def test_removed_snapshot_folder_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "state"
    with stack_of(path, "900000000007") as stack:
        write(stack, path)
    assert path.is_file()


def test_only_queue_messages_of_ended_receiver_become_visible_again(tmp_path: Path) -> None:
    with stack_of(tmp_path / "state", "900000000008") as stack:
        queue = stack.environment("ApiFunction")["AION_TASK_QUEUE_URL"]
        ended, living = (client_of("sqs", stack.endpoint, receiver=name) for name in ("ended", "living"))
        for body in ("a", "b"):
            stack.client("sqs").send_message(QueueUrl=queue, MessageBody=body)
        (first,) = ended.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)["Messages"]
        (second,) = living.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)["Messages"]
        stack.emulator.release_messages("ended")
        again = living.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
        assert [message["MessageId"] for message in again] == [first["MessageId"]]
        assert second["MessageId"] != first["MessageId"]
        # Expect that no message is released: `living` has received the released message, and has not ended.
        stack.emulator.release_messages("ended")
        assert "Messages" not in living.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        stack.client("sqs").send_message(QueueUrl=queue, MessageBody="c")
        with pytest.raises(ClientError):
            ended.receive_message(QueueUrl=queue)
        assert living.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "c"


def test_long_poll_of_ended_receiver_fails(tmp_path: Path) -> None:
    """Release the messages of a receiver that still polls, as after its process has ended: its poll fails."""
    with stack_of(tmp_path / "state", "900000000009") as stack, ThreadPoolExecutor() as threads:
        queue = stack.environment("ApiFunction")["AION_TASK_QUEUE_URL"]
        ended = client_of("sqs", stack.endpoint, receiver="ended")
        poll = threads.submit(ended.receive_message, QueueUrl=queue, WaitTimeSeconds=20)
        while stack.emulator.polls_waiting == 0:
            time.sleep(0.01)
        stack.emulator.release_messages("ended")
        with pytest.raises(ClientError):
            poll.result()
        stack.client("sqs").send_message(QueueUrl=queue, MessageBody="x")
        assert stack.client("sqs").receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "x"
