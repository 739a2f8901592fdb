"""Rows of a table in a SQLite file: items and index entries, each as JSON."""

import base64
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from aion_core.table.item import Item, Key
from aion_core.table.schema import INDEXES, TTL_ATTRIBUTE
from aion_core.table.semantics.pages import index_entry

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def read_item(connection: sqlite3.Connection, key: Key) -> Item | None:
    """Return the item with this key; None if it does not exist."""
    row = connection.execute("SELECT item FROM items WHERE pk = ? AND sk = ?", key).fetchone()
    return unpacked(row) if row is not None else None


def store_item(connection: sqlite3.Connection, key: Key, before: Item | None, after: Item | None) -> None:
    """Replace, insert or delete an item and its index entries."""
    if after is None:
        connection.execute("DELETE FROM items WHERE pk = ? AND sk = ?", key)
    else:
        expires = after.get(TTL_ATTRIBUTE)
        connection.execute(
            "INSERT INTO items VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET item = excluded.item, expires = excluded.expires",
            (*key, packed(after), expires if type(expires) is int else None),
        )
    for index in INDEXES:
        old, new = index_entry(index, before), index_entry(index, after)
        if old == new:
            continue
        if old is not None:
            connection.execute(
                "DELETE FROM entries WHERE name = ? AND partition = ? AND sort = ? AND pk = ? AND sk = ?",
                (index.name, old[index.partition], old[index.sort], *key),
            )
        if new is not None:
            connection.execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)",
                (index.name, new[index.partition], new[index.sort], *key, packed(new)),
            )


def packed(item: Mapping[str, Any]) -> str:
    """Return the item as JSON."""
    return _encode({name: _tagged(value) for name, value in item.items()})


def _tagged(value: Any) -> Any:
    """Return the JSON form of a value. Each JSON object has one member, named by the value's type."""
    match value:
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case frozenset():
            return {"set": sorted(value)}
        case dict():
            return {"map": {name: _tagged(member) for name, member in value.items()}}
        case list():
            return [_tagged(member) for member in value]
    return value


def unpacked(row: tuple[str]) -> Item:
    """Return the item in a row of one column, its JSON."""
    return {name: _untagged(value) for name, value in json.loads(row[0]).items()}


def _untagged(value: Any) -> Any:
    match value:
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"set": members}:
            return frozenset(members)
        case {"map": members}:
            return {name: _untagged(member) for name, member in members.items()}
        case list():
            return [_untagged(member) for member in value]
    return value
