"""Counts what the emulator is asked for: requests by service, and the units that DynamoDB would ask money for.

moto's own ConsumedCapacity says 1 for whatever is written, so the units are worked out from the items, by the rules of
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html: a write is a unit for each KB of the
larger of what was and what is there, two in a transaction; each index whose entry changes costs a write of the entry (two
where its key changes); a read is a unit for each 4 KB, half of one where it need not be consistent.
"""

import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moto.backends import get_backend
from werkzeug.test import run_wsgi_app

from aion_core.local.emulator import REGION

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Item = Mapping[str, Any]

WRITES = ("Put", "Update", "Delete")


class Meter:
    """Stands before the emulator and counts; `take` gives what was counted since the last time."""

    def __init__(self, app: "WSGIApplication", account: str) -> None:
        self._app, self._account = app, account
        self._counted: Counter[str] = Counter()

    def take(self) -> Counter[str]:
        """Return what was counted, and begin anew."""
        counted, self._counted = self._counted, Counter()
        return counted

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer as the emulator does, and count."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        service, _, operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")
        asked = json.loads(body) if service else {}
        is_dynamodb = service.startswith("DynamoDB")
        before = [self._item(write) for write in _writes(operation, asked)] if is_dynamodb else []
        chunks, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        answer = b"".join(chunks)
        if is_dynamodb:
            self._counted["dynamodb"] += 1
            if status.startswith("200"):
                self._count_units(operation, asked, before, json.loads(answer))
        elif service.startswith("AmazonSQS"):
            # A poll that finds nothing is Lambda's own, and reckoned by the month.
            self._counted["sqs"] += operation != "ReceiveMessage" or b'"Messages"' in answer
        elif service.startswith("Trent"):
            self._counted["kms"] += 1
        else:
            self._counted["s3_reads" if environ["REQUEST_METHOD"] in ("GET", "HEAD") else "s3_writes"] += 1
        start_response(status, list(headers))
        return [answer]

    def _count_units(self, operation: str, asked: Item, before: list[Item], answer: Item) -> None:
        twice = 2 if operation.startswith("Transact") else 1
        for write, was in zip(_writes(operation, asked), before, strict=True):
            now = self._item(write)
            self._counted["write_units"] += twice * _kilobytes(max(size(was), size(now)), 1)
            self._counted["write_units"] += sum(_of_index(index, was, now) for index in self._indexes(write))
        if operation in ("GetItem", "Query", "BatchGetItem", "Scan"):
            found = answer.get("Items", [answer["Item"]] if answer.get("Item") else [])
            for items in answer.get("Responses", {}).values():
                found = [*found, *items]
            units = _kilobytes(sum(map(size, found)), 4)
            self._counted["read_units"] += units if asked.get("ConsistentRead") else units / 2  # type: ignore[assignment]

    def _item(self, write: Item) -> Item:
        """Return the item of the write as it is now, {} where there is none."""
        backend = get_backend("dynamodb")[self._account][REGION]
        table = backend.get_table(write["TableName"])
        found = table.get_item(*backend.get_keys_value(table, write.get("Key") or write["Item"]))
        item: Item = found.to_json()["Attributes"] if found else {}
        return item

    def _indexes(self, write: Item) -> list[Item]:
        table = get_backend("dynamodb")[self._account][REGION].get_table(write["TableName"])
        return [index.describe() for index in table.global_indexes]


def _writes(operation: str, asked: Item) -> list[Item]:
    """Return the writes of a request."""
    if operation in ("PutItem", "UpdateItem", "DeleteItem"):
        return [asked]
    return [write[kind] for write in asked.get("TransactItems", []) for kind in WRITES if kind in write]


def _of_index(index: Item, was: Item, now: Item) -> int:
    """Return the units by which the index follows the change of an item."""
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
    """Return the bytes of an item, or of a value, as DynamoDB reckons them: names and contents."""
    if isinstance(value, Mapping):
        if set(value) & {"S", "N", "B"} and len(value) == 1:
            ((kind, content),) = value.items()
            text = str(content)
            return len(text) * 3 // 4 if kind == "B" else len(text) // 2 + 2 if kind == "N" else len(text.encode())
        if set(value) == {"M"} or set(value) == {"L"}:
            return 3 + size(next(iter(value.values())))
        return sum(len(name.encode()) + size(each) for name, each in value.items())
    return sum(1 + size(each) for each in value) if isinstance(value, list | tuple) else len(str(value))
