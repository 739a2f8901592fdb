"""Rows of a table in a SQLite file: an item in MessagePack, and its indexed attributes in columns of their own."""

import sqlite3
from typing import Any

import msgspec

from aion_core.table.item import Item, Key
from aion_core.table.schema import INDEXES, TTL_ATTRIBUTE

INDEXED = tuple(dict.fromkeys(name for index in INDEXES for name in (index.partition, index.sort)))
"""Attributes by which an index finds items. The columns of the same names have no type: texts and numbers sort apart."""

COLUMNS = (TTL_ATTRIBUTE, *INDEXED)

INDEX_STATEMENTS = "; ".join(
    f"CREATE INDEX {index.name} ON items ({index.partition}, {index.sort}, pk, sk) WHERE {index.partition} IS NOT NULL"
    for index in INDEXES
)

_INSERT = f"INSERT INTO items VALUES ({', '.join('?' * (3 + len(COLUMNS)))})"  # noqa: S608


def read_item(connection: sqlite3.Connection, key: Key) -> Item | None:
    """Return the item with this key; None if it does not exist."""
    row = connection.execute("SELECT item FROM items WHERE pk = ? AND sk = ?", key).fetchone()
    return unpacked(row) if row is not None else None


def store_item(connection: sqlite3.Connection, key: Key, before: Item | None, after: Item | None) -> None:
    """Replace, insert or delete an item."""
    if after is None:
        connection.execute("DELETE FROM items WHERE pk = ? AND sk = ?", key)
    elif before is None:
        connection.execute(_INSERT, (*key, packed(after), *map(after.get, COLUMNS)))
    else:
        # Name only the changed columns, because SQLite writes the entries of all indexes with a named column again.
        changed = [name for name in COLUMNS if before.get(name) != after.get(name)]
        names = "".join([f", {name} = ?" for name in changed])
        statement = f"UPDATE items SET item = ?{names} WHERE pk = ? AND sk = ?"  # noqa: S608
        connection.execute(statement, (packed(after), *map(after.get, changed), *key))


_PLAIN = frozenset({str, bytes, bool})

_NUMBER, _SET = 1, 2
"""MessagePack's extension types of values that it lacks: whole numbers above 64 bits, and sets of texts."""


def packed(item: Item) -> bytes:
    """Return the item in MessagePack."""
    return _encode({name: value if type(value) in _PLAIN else _extended(value) for name, value in item.items()})


def _extended(value: Any) -> Any:
    """Return a value without numbers and sets that MessagePack lacks."""
    kind = type(value)
    if kind is int:
        return value if -(2**63) <= value < 2**63 else msgspec.msgpack.Ext(_NUMBER, str(value).encode())
    if kind is dict:
        return {name: _extended(member) for name, member in value.items()}
    if kind is list:
        return [_extended(member) for member in value]
    return value if kind is not frozenset else msgspec.msgpack.Ext(_SET, _encode(sorted(value)))


def unpacked(row: tuple[bytes]) -> Item:
    """Return the item in a row of one column, its MessagePack."""
    item: Item = _decode(row[0])
    return item


def _restored(code: int, data: memoryview) -> Any:
    return int(bytes(data)) if code == _NUMBER else frozenset(_decode(data))


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(ext_hook=_restored).decode
