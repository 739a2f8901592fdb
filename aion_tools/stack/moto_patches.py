"""Patches of moto for faster DynamoDB transactions and queries, and for SQS StartMessageMoveTask.

moto copies every item of a table for each action of a transaction, and sorts every item for each query. It lacks
StartMessageMoveTask.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.sqs.responses import SQSResponse

if TYPE_CHECKING:
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table

Actions = list[dict[str, Any]]


def speed_up_dynamodb(backend: "DynamoDBBackend") -> None:
    """Patch moto's DynamoDB, so that transactions and queries handle only their own items instead of the whole table.

    The patched backend must not handle requests concurrently.
    """
    query = backend.query

    def query_of_hash_key(table_name: str, hash_key_dict: dict[str, Any] | None, *arguments: Any, **named: Any) -> Any:
        index = named.get("index_name") or (arguments[_INDEX_NAME] if len(arguments) > _INDEX_NAME else None)
        if index or not hash_key_dict:
            return query(table_name, hash_key_dict, *arguments, **named)
        with _only(backend.get_table(table_name), DynamoType(hash_key_dict)):
            return query(table_name, hash_key_dict, *arguments, **named)

    backend.query = query_of_hash_key  # type: ignore[method-assign]
    transact = backend.transact_write_items

    def transact_write_items(transact_items: Actions) -> None:
        try:
            undo = [_undo(backend, action) for action in transact_items]
        except Exception:
            # Let moto return its own error, because the request is invalid.
            return transact(transact_items)
        with ExitStack() as uncopied:
            for table in {
                id(table): table for table in (_table(backend, action) for action in transact_items)
            }.values():
                uncopied.enter_context(_uncopied(table))
            try:
                transact(transact_items)
            except Exception:
                for step in undo:
                    step()
                raise

    backend.transact_write_items = transact_write_items  # type: ignore[method-assign]


def _table(backend: "DynamoDBBackend", action: dict[str, Any]) -> "Table":
    (request,) = action.values()
    return backend.get_table(request["TableName"])


def _undo(backend: "DynamoDBBackend", action: dict[str, Any]) -> Callable[[], None]:
    """Copy the item that this action of a transaction will write. Return a function that restores the copy."""
    (request,) = action.values()
    table = _table(backend, action)
    hash_key, range_key = backend.get_keys_value(table, request.get("Key") or request["Item"])
    now = copy.deepcopy(table.get_item(hash_key, range_key))

    def restore() -> None:
        if not now:
            table.delete_item(hash_key, range_key)
        elif range_key:
            table.items[hash_key][range_key] = now
        else:
            table.items[hash_key] = now  # type: ignore[assignment]

    return restore


_INDEX_NAME = 6
"""Position of `index_name` among the arguments that moto's `query` gets after the table and the hash key."""


@contextmanager
def _only(table: "Table", hash_key: DynamoType) -> Iterator[None]:
    """While the block runs, let moto's query read only the items with this hash key instead of the whole table."""
    found = table.items.get(hash_key)
    if not table.range_key_attr:
        yield
        return
    items = sorted(found.values(), key=lambda item: item.range_key) if found else []
    table.all_items = lambda: items  # type: ignore[method-assign]
    try:
        yield
    finally:
        del table.all_items


@contextmanager
def _uncopied(table: "Table") -> Iterator[None]:
    table.__deepcopy__ = lambda memo: table  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del table.__deepcopy__  # type: ignore[attr-defined]


def support_message_moves() -> None:
    """Add StartMessageMoveTask to moto's SQS. It moves the visible messages before it responds."""
    SQSResponse.start_message_move_task = _start_message_move_task


def _start_message_move_task(response: SQSResponse) -> ActionResult:
    backend = response.sqs_backend
    queues = {queue.queue_arn: queue for queue in backend.queues.values()}
    source, destination = (queues[response._get_param(name)] for name in ("SourceArn", "DestinationArn"))
    for message in source.messages:
        # Send a new message: as on AWS, it gets a new id and send time, and its receive count starts at zero.
        backend.send_message(destination.name, message.body, group_id=message.group_id)
        source._messages.remove(message)
    return ActionResult({"TaskHandle": "moto"})
