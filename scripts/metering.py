"""Meter of the emulator: counts AWS requests by service, and DynamoDB's capacity units.

moto's ConsumedCapacity is always 1, so the meter calculates units from the items by the rules of
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html: a write costs a unit for
each KB of the old or the new item, whichever is larger, and in a transaction two units, also for a write that only
checks a condition. A refused write costs as much. Each index with a changed entry costs a write of this entry, or two
writes if its key has changed. A consistent read costs a unit for each 4 KB, any other read half a unit.
"""

import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moto.backends import get_backend
from werkzeug.test import run_wsgi_app

from aion_tools.stack import REGION

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Item = Mapping[str, Any]

WRITES = ("Put", "Update", "Delete", "ConditionCheck")
REFUSED = (b"ConditionalCheckFailedException", b"TransactionCanceledException")


class Meter:
    """WSGI middleware that counts the requests to the AWS emulator. `take` returns and resets the counts."""

    def __init__(self, app: "WSGIApplication", account: str) -> None:
        self._app, self._account = app, account
        self._counted: Counter[str] = Counter()

    def take(self) -> Counter[str]:
        """Return the request counts since the last call and reset them."""
        counted, self._counted = self._counted, Counter()
        return counted

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Count the request and return the emulator's response."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        service, _, operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")
        request = json.loads(body) if service else {}
        is_dynamodb = service.startswith("DynamoDB")
        before = [self._item(write) for write in _writes(operation, request)] if is_dynamodb else []
        chunks, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        answer = b"".join(chunks)
        if is_dynamodb:
            self._counted["dynamodb"] += 1
            if status.startswith("200") or any(error in answer for error in REFUSED):
                self._count_units(operation, request, before, json.loads(answer))
        elif service.startswith("AmazonSQS"):
            # Count no polls that return no message: the price of an idle month includes the empty polls of Lambda.
            self._counted["sqs"] += operation != "ReceiveMessage" or b'"Messages"' in answer
        elif service.startswith("Trent"):
            self._counted["kms"] += 1
        else:
            self._counted["s3_reads" if environ["REQUEST_METHOD"] in ("GET", "HEAD") else "s3_writes"] += 1
        start_response(status, list(headers))
        return [answer]

    def _count_units(self, operation: str, request: Item, before: list[Item], answer: Item) -> None:
        twice = 2 if operation.startswith("Transact") else 1
        for write, was in zip(_writes(operation, request), before, strict=True):
            now = self._item(write)
            self._counted["write_units"] += twice * _kilobytes(max(size(was), size(now)), 1)
            self._counted["write_units"] += sum(_of_index(index, was, now) for index in self._indexes(write))
        if operation in ("GetItem", "Query", "BatchGetItem", "Scan"):
            found = answer.get("Items", [answer["Item"]] if answer.get("Item") else [])
            for items in answer.get("Responses", {}).values():
                found = [*found, *items]
            units = _kilobytes(sum(map(size, found)), 4)
            self._counted["read_units"] += units if request.get("ConsistentRead") else units / 2  # type: ignore[assignment]

    def _item(self, write: Item) -> Item:
        """Return the currently stored item for the key of a write, or {}."""
        backend = get_backend("dynamodb")[self._account][REGION]
        table = backend.get_table(write["TableName"])
        found = table.get_item(*backend.get_keys_value(table, write.get("Key") or write["Item"]))
        item: Item = found.to_json()["Attributes"] if found else {}
        return item

    def _indexes(self, write: Item) -> list[Item]:
        table = get_backend("dynamodb")[self._account][REGION].get_table(write["TableName"])
        return [index.describe() for index in table.global_indexes]


def _writes(operation: str, request: Item) -> list[Item]:
    """Return the writes of a DynamoDB request: the request itself, or the writes of its transaction."""
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        return [request]
    return [write[kind] for write in request.get("TransactItems", []) for kind in WRITES if kind in write]


def _of_index(index: Item, was: Item, now: Item) -> int:
    """Return the write units that an index needs if an item changes from `was` to `now`."""
    keys = [each["AttributeName"] for each in index["KeySchema"]]
    projected = ["pk", "sk", *keys, *index["Projection"].get("NonKeyAttributes", [])]
    entries = [
        {name: item[name] for name in projected if name in item} if all(key in item for key in keys) else {}
        for item in (was, now)
    ]
    if entries[0] == entries[1]:
        return 0
    moved = all(entries) and any(entries[0][key] != entries[1][key] for key in keys)
    return (2 if moved else 1) * _kilobytes(max(map(size, entries)), 1)


def _kilobytes(many: int, step: int) -> int:
    return max(1, math.ceil(many / 1024 / step))


def size(value: Any) -> int:
    """Return the size of an item or value in bytes by DynamoDB's rules, including the names of attributes."""
    if isinstance(value, Mapping):
        if set(value) & {"S", "N", "B"} and len(value) == 1:
            ((kind, content),) = value.items()
            text = str(content)
            return len(text) * 3 // 4 if kind == "B" else len(text) // 2 + 2 if kind == "N" else len(text.encode())
        if set(value) == {"M"} or set(value) == {"L"}:
            return 3 + size(next(iter(value.values())))
        return sum(len(name.encode()) + size(each) for name, each in value.items())
    return sum(1 + size(each) for each in value) if isinstance(value, list | tuple) else len(str(value))
