"""Deliberate failures of a store's client, by botocore hooks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from botocore.exceptions import ReadTimeoutError

from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.table.port import Table

TRANSACT, UPDATE = "TransactWriteItems", "UpdateItem"


def events_of(table: Table) -> Any:
    """Return the botocore hooks of a DynamoDB table's calls."""
    assert isinstance(table, DynamoDBTable)
    return table._calls._client.meta.events


class Faults:
    """Injected failures of the writes of one store."""

    def __init__(self, store: Any) -> None:
        """Inject failures into the AWS client of a `store` whose table is a DynamoDBTable."""
        self._events = events_of(store._table)

    def lose_answers(self, operation: str, *, times: int, then: Callable[[], None] | None = None) -> None:
        """Execute the operation, then raise a timeout in place of its response; call `then` after the last timeout."""
        left = [times]

        def lose(**_: Any) -> None:
            if left[0] > 0:
                left[0] -= 1
                if not left[0] and then is not None:
                    then()
                raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

        self._events.register(f"after-call.dynamodb.{operation}", lose)

    def refuse(self, operation: str, *, code: str, times: int, reasons: list[str] | None = None) -> None:
        """Refuse the operation with this error code, without executing it."""
        left = [times]

        class Response:
            status_code = 400

        def before(**_: Any) -> Any:
            if left[0] <= 0:
                return None
            left[0] -= 1
            parsed: dict[str, Any] = {
                "ResponseMetadata": {"HTTPStatusCode": 400},
                "Error": {"Code": code, "Message": "made up by a test"},
            }
            if reasons:
                parsed["CancellationReasons"] = [{"Code": reason} for reason in reasons]
            return Response(), parsed

        self._events.register(f"before-call.dynamodb.{operation}", before)

    def meanwhile(self, act: Callable[[], Awaitable[Any]], *, operation: str = TRANSACT, nth: int = 1) -> list[Any]:
        """Run `act` just before the store's `nth` write; return a list that receives the result of `act`."""
        calls, outcomes = [0], list[Any]()

        def happens(**_: Any) -> None:
            calls[0] += 1
            if calls[0] == nth:
                outcomes.append(asyncio.run(act()))  # type: ignore[arg-type]

        self._events.register(f"before-call.dynamodb.{operation}", happens)
        return outcomes
