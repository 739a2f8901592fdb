"""Makes moto's transactions cost what they touch; moto itself copies every item of the table, once for each action."""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table

Actions = list[dict[str, Any]]


def keep_only_what_is_touched(backend: "DynamoDBBackend") -> None:
    """Let a failed transaction put back single items instead of the whole table; callers must come one at a time."""
    transact = backend.transact_write_items

    def transact_write_items(transact_items: Actions) -> None:
        try:
            undo = [_undo(backend, action) for action in transact_items]
        except Exception:
            # A request that is not right: moto finds the words for it.
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
    """Return what puts the action's item back to what it is now."""
    (request,) = action.values()
    table = _table(backend, action)
    hash_key, range_key = backend.get_keys_value(table, request.get("Key") or request["Item"])
    now = copy.deepcopy(table.get_item(hash_key, range_key))

    def put_back() -> None:
        if not now:
            table.delete_item(hash_key, range_key)
        elif range_key:
            table.items[hash_key][range_key] = now
        else:
            table.items[hash_key] = now  # type: ignore[assignment]

    return put_back


@contextmanager
def _uncopied(table: "Table") -> Iterator[None]:
    table.__deepcopy__ = lambda memo: table  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del table.__deepcopy__  # type: ignore[attr-defined]
