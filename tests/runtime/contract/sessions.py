"""ADK session services for tests: over the memory table, and over DynamoDB on a database, each beside its task store."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ReadTimeoutError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session
from google.genai import types

from aion_core.aws.blobs import S3Blobs
from aion_core.aws.cipher import KMSCipher
from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.clock import Clock
from aion_core.engine.task_store import TaskStore
from aion_core.local.memory.blobs import MemoryBlobs
from aion_core.state.adk.sessions import TableSessions
from aion_core.table.blobs import Blobs
from aion_core.table.cipher import Cipher
from aion_core.table.port import Table
from tests.support.databases import Stack
from tests.support.stores import CIPHER, LEASE_SECONDS, MemoryTaskStore, dynamodb_store


class SessionPlace:
    """Task store and ADK session services in one table. A session write is refused if the turn's fence is outdated."""

    def __init__(self, tasks: TaskStore, table: Table, blobs: Blobs, cipher: Cipher, clock: Clock) -> None:
        self.tasks, self.table, self.blobs, self.cipher, self._clock = tasks, table, blobs, cipher, clock

    def service(self, **options: Any) -> TableSessions:
        """Return a session service for one turn."""
        return TableSessions(self.table, self.blobs, self.cipher, self._clock, **options)


def memory_sessions(clock: Clock) -> SessionPlace:
    tasks = MemoryTaskStore(clock, lease_seconds=LEASE_SECONDS)
    return SessionPlace(tasks, tasks.table, MemoryBlobs(), CIPHER, clock)


class DynamoDBSessionPlace(SessionPlace):
    """Session services with their own `client`, so that a test may observe the client or inject failures."""

    def __init__(self, stack: Stack, clock: Clock) -> None:
        environment = stack.environment("ApiFunction")
        self.table_name: str = environment["AION_TABLE"]
        self.bucket: str = environment["AION_BUCKET"]
        self.client, self.s3 = stack.client("dynamodb"), stack.client("s3")
        executor = ThreadPoolExecutor(16)
        kms = AwsClient("kms", executor, client=stack.client("kms"))
        super().__init__(
            dynamodb_store(stack, clock),
            DynamoDBTable(AwsClient("dynamodb", executor, client=self.client), name=self.table_name),
            S3Blobs(AwsClient("s3", executor, client=self.s3), bucket=self.bucket),
            KMSCipher(kms, clock, key=environment["AION_KMS_KEY"]),
            clock,
        )

    def lose_answers(self, *, times: int) -> None:
        """Execute the next `times` transactions, but replace each response by a read timeout."""
        left = iter(range(times))

        def lose(**_: Any) -> None:
            if next(left, None) is not None:
                raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

        self.client.meta.events.register("after-call.dynamodb.TransactWriteItems", lose)

    def rows(self, partition: str) -> list[dict[str, Any]]:
        """Return the partition's items."""
        found: list[dict[str, Any]] = self.client.query(
            TableName=self.table_name,
            ConsistentRead=True,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": partition}},
        )["Items"]
        return found

    def objects(self, folder: str) -> list[str]:
        """Return the names of the bucket's objects in the folder."""
        return [each["Key"] for each in self.s3.list_objects_v2(Bucket=self.bucket, Prefix=folder).get("Contents", [])]


def said(text: str, *, timestamp: float = 1.0, state: dict[str, Any] | None = None, **more: Any) -> Event:
    """Return an ADK event with this text and this change of the session's state."""
    return Event(
        author="agent",
        invocation_id="turn-1",
        timestamp=timestamp,
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        actions=EventActions(state_delta=state or {}),
        **more,
    )


def texts(session: Session | None) -> list[str]:
    """Return the texts of the session's events."""
    assert session is not None
    return [event.content.parts[0].text or "" for event in session.events if event.content and event.content.parts]
